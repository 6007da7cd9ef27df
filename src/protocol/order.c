// Encodes and decodes orders and answers. Each kind has its own fields on the wire and no others,
// in the order in which they are written here. Both ends check the same rules: the warden because
// the daemon may be compromised, the daemon so that a bug of ours is caught at the boundary.
#include "protocol/order.h"

#include "codec/pack.h"

#define BYTES_MAX (1ull << 50)
#define NUMBER_MAX (1ull << 53)
#define REASON_WORD "abcdefghijklmnopqrstuvwxyz0123456789_"

// Sizes of the largest messages: a text is its length, its bytes and a NUL.
#define TEXT_SIZE(room) (4 + (room))
#define ANSWER_HEAD (1 + 1 + 4)
_Static_assert(ANSWER_HEAD + 1 + ORDER_LIST_PAGE * (TEXT_SIZE(TEMPLATE_NAME_MAX) + 1 + 8 + 8) <=
		       ORDER_SIZE_MAX,
	       "a page of templates fits a message");
_Static_assert(ANSWER_HEAD + 1 + ORDER_BOXES_PAGE * (TEXT_SIZE(ID_BOX_LEN + 1) + 1 + 4) <=
		       ORDER_SIZE_MAX,
	       "a page of cells fits a message");
_Static_assert(ANSWER_HEAD + sizeof(struct order_inventory) + 1 +
			       ORDER_ODDS_MAX * (TEXT_SIZE(24) + TEXT_SIZE(ID_BOX_LEN + 1)) <=
		       ORDER_SIZE_MAX,
	       "a census fits a message");
_Static_assert(ANSWER_HEAD + 1 + TEXT_SIZE(40) + 2 * TEXT_SIZE(256) <= ORDER_SIZE_MAX,
	       "a refusal fits a message");

static void put_array(struct pack *pack, const char *array, size_t size)
{
	size_t len = strnlen(array, size);

	if (len == size)
		pack->failed = true;
	else
		pack_text(pack, (struct str){array, len});
}

#define put_chars(pack, array) put_array(pack, array, sizeof(array))

static void order_put_limits(struct pack *pack, const struct limits *limits)
{
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		pack_u64(pack, limit_of(limits, i));
}

size_t order_encode(const struct order *order, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < ORDER_SIZE_MAX ? size : ORDER_SIZE_MAX);
	pack_u8(&pack, (uint8_t)order->kind);
	pack_u32(&pack, order->id);
	if (order->kind != ORDER_HELLO)
		put_chars(&pack, order->trace);
	switch (order->kind) {
	case ORDER_HELLO:
		pack_u32(&pack, order->version);
		put_chars(&pack, order->next);
		break;
	case ORDER_BUILD:
		put_chars(&pack, order->box);
		put_chars(&pack, order->name);
		put_chars(&pack, order->host);
		order_put_limits(&pack, &order->limits);
		pack_u8(&pack, order->ephemeral);
		pack_u8(&pack, order->again);
		pack_u8(&pack, order->net);
		pack_u8(&pack, order->ahead);
		put_chars(&pack, order->next);
		break;
	case ORDER_NETWORK:
	case ORDER_ADOPT:
		put_chars(&pack, order->box);
		pack_u8(&pack, order->kind == ORDER_ADOPT ? order->cpu : order->net);
		break;
	case ORDER_DESTROY:
		put_chars(&pack, order->box);
		put_chars(&pack, order->next);
		break;
	case ORDER_BOXES:
	case ORDER_STOP:
	case ORDER_PAUSE:
	case ORDER_THAW:
	case ORDER_USAGE:
		put_chars(&pack, order->box);
		break;
	case ORDER_CGROUP:
		put_chars(&pack, order->box);
		put_chars(&pack, order->name);
		pack_u8(&pack, order->again);
		pack_u32(&pack, order->exec_cgroup);
		break;
	case ORDER_INVENTORY:
		break;
	case ORDER_KILL:
		put_chars(&pack, order->box);
		pack_u32(&pack, order->exec_cgroup);
		break;
	case ORDER_IMPORT:
	case ORDER_FREEZE:
	case ORDER_FORGET:
	case ORDER_LIST:
		put_chars(&pack, order->name);
		break;
	default:
		return 0;
	}
	return pack.failed ? 0 : pack.len;
}

// Decoding. A broken rule fails the reader, and so the message.
static void hold(struct unpack *in, bool law)
{
	if (!law)
		in->failed = true;
}

static uint64_t within(struct unpack *in, uint64_t value, uint64_t min, uint64_t max)
{
	hold(in, value >= min && value <= max);
	return value;
}

static bool get_bool(struct unpack *in)
{
	return within(in, unpack_u8(in), 0, 1);
}

// Fills the array to its end with NULs; returns the text for further checks.
static struct str get_array(struct unpack *in, char *array, size_t size)
{
	struct str text = unpack_text(in, size - 1);

	memset(array, 0, size);
	memcpy(array, text.at, text.len);
	return text;
}

#define get_chars(in, array) get_array(in, array, sizeof(array))

static bool is_host_name(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!(s.at[i] >= 'a' && s.at[i] <= 'z') && !(s.at[i] >= '0' && s.at[i] <= '9') &&
		    !(s.at[i] == '-' && i > 0))
			return false;
	return s.len > 0;
}

// The name of an abandoned template: hex digits after the prefix.
static bool order_is_unfinished(struct str s)
{
	size_t head = strlen(ORDER_UNFINISHED);

	return s.len > head && str_starts(s, ORDER_UNFINISHED) &&
	       strspn(s.at + head, "0123456789abcdef") == s.len - head;
}

static bool is_mark(struct str s)
{
	return strspn(s.at, REASON_WORD) == s.len;
}

static void order_get_limits(struct unpack *in, struct limits *out)
{
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		*limit_at(out, i) = within(in, unpack_u64(in), 0, BYTES_MAX);
	within(in, out->memory, 1 << 20, BYTES_MAX);
	within(in, out->cpu_milli, 1, 1024 * 1000);
	within(in, out->pids, 1, 1 << 22);
}

static void get_box(struct unpack *in, struct order *order)
{
	hold(in, id_is_box(get_chars(in, order->box)));
}

bool order_is_trace(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] < ' ' || text.at[i] > '~')
			return false;
	return text.len < ORDER_TRACE_MAX;
}

static void get_next(struct unpack *in, struct order *order)
{
	struct str name = get_chars(in, order->next);

	hold(in, name.len == 0 || id_is_box(name));
}

static void get_order(struct unpack *in, struct order *order)
{
	struct str name;

	if (order->kind != ORDER_HELLO)
		hold(in, order_is_trace(get_chars(in, order->trace)));
	switch (order->kind) {
	case ORDER_HELLO:
		order->version = unpack_u32(in);
		get_next(in, order);
		break;
	case ORDER_BUILD:
		get_box(in, order);
		hold(in, id_is_template(get_chars(in, order->name)));
		hold(in, is_host_name(get_chars(in, order->host)));
		order_get_limits(in, &order->limits);
		order->ephemeral = get_bool(in);
		order->again = get_bool(in);
		order->net = get_bool(in);
		order->ahead = get_bool(in);
		hold(in, !order->ahead || !order->again);
		get_next(in, order);
		break;
	case ORDER_NETWORK:
	case ORDER_ADOPT:
		get_box(in, order);
		*(order->kind == ORDER_ADOPT ? &order->cpu : &order->net) = get_bool(in);
		break;
	case ORDER_DESTROY:
		get_box(in, order);
		get_next(in, order);
		break;
	case ORDER_STOP:
	case ORDER_PAUSE:
	case ORDER_THAW:
	case ORDER_USAGE:
		get_box(in, order);
		break;
	case ORDER_BOXES:
		name = get_chars(in, order->box);
		hold(in, name.len == 0 || id_is_box(name));
		break;
	case ORDER_INVENTORY:
		break;
	case ORDER_CGROUP:
		get_box(in, order);
		hold(in, is_mark(get_chars(in, order->name)));
		order->again = get_bool(in);
		order->exec_cgroup = (uint32_t)within(in, unpack_u32(in), 0, TALK_CGROUPS_MAX - 1);
		break;
	case ORDER_KILL:
		get_box(in, order);
		order->exec_cgroup = (uint32_t)within(in, unpack_u32(in), 0, TALK_CGROUPS_MAX - 1);
		break;
	case ORDER_IMPORT:
	case ORDER_FREEZE:
		hold(in, id_is_template(get_chars(in, order->name)));
		break;
	case ORDER_FORGET:
		name = get_chars(in, order->name);
		hold(in, id_is_template(name) || order_is_unfinished(name));
		break;
	case ORDER_LIST:
		name = get_chars(in, order->name);
		hold(in, name.len == 0 || id_is_template(name));
		break;
	default:
		in->failed = true;
	}
}

fallible order_decode(const void *bytes, size_t len, struct order *out)
{
	struct order order = {0};
	struct unpack in;

	unpack_init(&in, bytes, len);
	hold(&in, len <= ORDER_SIZE_MAX);
	order.kind = (enum order_kind)within(&in, unpack_u8(&in), 0, ORDER_KIND_COUNT - 1);
	order.id = unpack_u32(&in);
	if (!in.failed)
		get_order(&in, &order);
	if (!unpack_end(&in))
		return err_new(INVALID, "bad_order", "the order is malformed");
	*out = order;
	return OK;
}

static void put_host(struct pack *pack, const struct order_host *host)
{
	pack_u32(pack, host->version);
	pack_u32(pack, host->pid1_version);
	pack_u64(pack, host->epoch);
	pack_u8(pack, host->can_limit_disk);
	pack_u8(pack, host->can_limit_inodes);
	put_chars(pack, host->disk);
	put_chars(pack, host->cgroup);
	put_chars(pack, host->net);
	pack_u32(pack, host->boxes_max);
}

static void get_host(struct unpack *in, struct order_host *host)
{
	struct str word;

	host->version = unpack_u32(in);
	host->pid1_version = unpack_u32(in);
	host->epoch = unpack_u64(in);
	host->can_limit_disk = get_bool(in);
	host->can_limit_inodes = get_bool(in);
	word = get_chars(in, host->disk);
	hold(in, str_is(word, "btrfs") || str_is(word, "ext4-image") || str_is(word, "directory"));
	word = get_chars(in, host->cgroup);
	hold(in, str_is(word, "v1") || str_is(word, "hybrid") || str_is(word, "v2"));
	word = get_chars(in, host->net);
	hold(in, str_is(word, "sk_lookup") || str_is(word, "nft") || str_is(word, "none"));
	host->boxes_max = (uint32_t)within(in, unpack_u32(in), 1, ORDER_BOXES_MAX);
}

static void put_templates(struct pack *pack, const struct answer *answer)
{
	if (answer->template_count > ORDER_LIST_PAGE)
		pack->failed = true;
	pack_u8(pack, (uint8_t)answer->template_count);
	for (uint32_t i = 0; !pack->failed && i < answer->template_count; i++) {
		put_chars(pack, answer->templates[i].name);
		pack_u8(pack, answer->templates[i].is_host);
		pack_u64(pack, answer->templates[i].bytes);
		pack_u64(pack, (uint64_t)answer->templates[i].created);
	}
}

static void get_templates(struct unpack *in, struct answer *answer)
{
	answer->template_count = (uint32_t)within(in, unpack_u8(in), 0, ORDER_LIST_PAGE);
	for (uint32_t i = 0; !in->failed && i < answer->template_count; i++) {
		hold(in, id_is_template(get_chars(in, answer->templates[i].name)));
		answer->templates[i].is_host = get_bool(in);
		answer->templates[i].bytes = within(in, unpack_u64(in), 0, BYTES_MAX);
		answer->templates[i].created = (int64_t)within(in, unpack_u64(in), 0, NUMBER_MAX);
	}
}

static void put_boxes(struct pack *pack, const struct answer *answer)
{
	if (answer->cell_count > ORDER_BOXES_PAGE)
		pack->failed = true;
	pack_u8(pack, (uint8_t)answer->cell_count);
	for (uint32_t i = 0; !pack->failed && i < answer->cell_count; i++) {
		put_chars(pack, answer->cells[i].box);
		pack_u8(pack, (uint8_t)answer->cells[i].state);
		pack_u32(pack, answer->cells[i].pid);
	}
}

static void get_boxes(struct unpack *in, struct answer *answer)
{
	answer->cell_count = (uint32_t)within(in, unpack_u8(in), 0, ORDER_BOXES_PAGE);
	for (uint32_t i = 0; !in->failed && i < answer->cell_count; i++) {
		struct order_box *cell = &answer->cells[i];

		hold(in, id_is_box(get_chars(in, cell->box)));
		cell->state = (enum order_box_state)within(in, unpack_u8(in), 0,
							   ORDER_BOX_STATE_COUNT - 1);
		cell->pid = (uint32_t)within(in, unpack_u32(in), 0, INT32_MAX);
	}
}

#define SPENT_WORDS (TALK_CGROUPS_MAX / 64)

static void put_adopt(struct pack *pack, const struct answer *answer)
{
	pack_u32(pack, answer->pid);
	pack_u8(pack, answer->frozen);
	pack_u32(pack, answer->exec_cgroups);
	pack_u64(pack, answer->cpu_us);
	for (int i = 0; i < SPENT_WORDS; i++)
		pack_u64(pack, answer->spent[i]);
}

static void get_adopt(struct unpack *in, struct answer *answer)
{
	answer->pid = (uint32_t)within(in, unpack_u32(in), 1, INT32_MAX);
	answer->frozen = get_bool(in);
	answer->exec_cgroups = (uint32_t)within(in, unpack_u32(in), 0, TALK_CGROUPS_MAX);
	answer->cpu_us = unpack_u64(in);
	for (int i = 0; i < SPENT_WORDS; i++)
		answer->spent[i] = unpack_u64(in);
}

static void put_usage(struct pack *pack, const struct order_usage *usage)
{
	pack_u64(pack, usage->memory);
	pack_u64(pack, usage->cpu_us);
	pack_u64(pack, usage->pids);
	pack_u64(pack, usage->disk);
}

static void get_usage(struct unpack *in, struct order_usage *usage)
{
	usage->memory = unpack_u64(in);
	usage->cpu_us = unpack_u64(in);
	usage->pids = unpack_u64(in);
	usage->disk = unpack_u64(in);
}

static void put_inventory(struct pack *pack, const struct answer *answer)
{
	const struct order_inventory *inventory = &answer->inventory;
	const uint32_t numbers[] = {
#define X(field) inventory->field,
		ORDER_INVENTORY_FIELDS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		pack_u32(pack, numbers[i]);
	if (answer->odd_count > ORDER_ODDS_MAX)
		pack->failed = true;
	pack_u8(pack, (uint8_t)answer->odd_count);
	for (uint32_t i = 0; !pack->failed && i < answer->odd_count; i++) {
		put_chars(pack, answer->odds[i].what);
		put_chars(pack, answer->odds[i].name);
	}
}

// A leaked resource may have any name: it is sent as found, but as printable characters.
static void get_inventory(struct unpack *in, struct answer *answer)
{
	struct order_inventory *inventory = &answer->inventory;
	uint32_t *const numbers[] = {
#define X(field) &inventory->field,
		ORDER_INVENTORY_FIELDS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		*numbers[i] = unpack_u32(in);
	answer->odd_count = (uint32_t)within(in, unpack_u8(in), 0, ORDER_ODDS_MAX);
	for (uint32_t i = 0; !in->failed && i < answer->odd_count; i++) {
		struct str what = get_chars(in, answer->odds[i].what);

		hold(in, what.len > 0 && strspn(what.at, REASON_WORD) == what.len);
		hold(in, order_is_trace(get_chars(in, answer->odds[i].name)));
	}
}

static void order_put_done(struct pack *pack, const struct answer *answer)
{
	switch (answer->to) {
	case ORDER_HELLO:
		put_host(pack, &answer->host);
		break;
	case ORDER_BUILD:
		pack_u32(pack, answer->exec_cgroup);
		pack_u8(pack, answer->net);
		break;
	case ORDER_NETWORK:
		pack_u8(pack, answer->net);
		break;
	case ORDER_CGROUP:
		pack_u32(pack, answer->exec_cgroup);
		pack_u32(pack, answer->join_count);
		pack_u8(pack, answer->marked);
		break;
	case ORDER_IMPORT:
	case ORDER_FREEZE:
		pack_u64(pack, answer->bytes);
		pack_u64(pack, answer->files);
		break;
	case ORDER_LIST:
		put_templates(pack, answer);
		break;
	case ORDER_BOXES:
		put_boxes(pack, answer);
		break;
	case ORDER_ADOPT:
		put_adopt(pack, answer);
		break;
	case ORDER_INVENTORY:
		put_inventory(pack, answer);
		break;
	case ORDER_USAGE:
		put_usage(pack, &answer->usage);
		break;
	default:
		break;
	}
}

static void order_get_done(struct unpack *in, struct answer *answer)
{
	switch (answer->to) {
	case ORDER_HELLO:
		get_host(in, &answer->host);
		break;
	case ORDER_BUILD:
		answer->exec_cgroup = (uint32_t)within(in, unpack_u32(in), 0, TALK_CGROUPS_MAX - 1);
		answer->net = get_bool(in);
		break;
	case ORDER_NETWORK:
		answer->net = get_bool(in);
		break;
	case ORDER_CGROUP:
		answer->exec_cgroup = (uint32_t)within(in, unpack_u32(in), 0, TALK_CGROUPS_MAX - 1);
		answer->join_count = (uint32_t)within(in, unpack_u32(in), 0, 2);
		answer->marked = get_bool(in);
		break;
	case ORDER_IMPORT:
	case ORDER_FREEZE:
		answer->bytes = within(in, unpack_u64(in), 0, BYTES_MAX);
		answer->files = within(in, unpack_u64(in), 0, BYTES_MAX);
		break;
	case ORDER_LIST:
		get_templates(in, answer);
		break;
	case ORDER_BOXES:
		get_boxes(in, answer);
		break;
	case ORDER_ADOPT:
		get_adopt(in, answer);
		break;
	case ORDER_INVENTORY:
		get_inventory(in, answer);
		break;
	case ORDER_USAGE:
		get_usage(in, &answer->usage);
		break;
	default:
		break;
	}
}

static void get_refusal(struct unpack *in, struct answer *answer)
{
	struct str reason;

	answer->error = (enum err_kind)within(in, unpack_u8(in), 0, ERR_NO_SPACE);
	reason = get_chars(in, answer->reason);
	hold(in, reason.len > 0 && strspn(reason.at, REASON_WORD) == reason.len);
	get_chars(in, answer->message);
	get_chars(in, answer->hint);
}

size_t answer_encode(const struct answer *answer, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < ORDER_SIZE_MAX ? size : ORDER_SIZE_MAX);
	pack_u8(&pack, (uint8_t)answer->kind);
	pack_u8(&pack, (uint8_t)answer->to);
	pack_u32(&pack, answer->id);
	if (answer->kind == ANSWER_DONE) {
		order_put_done(&pack, answer);
	} else if (answer->kind == ANSWER_REFUSED) {
		pack_u8(&pack, (uint8_t)answer->error);
		put_chars(&pack, answer->reason);
		put_chars(&pack, answer->message);
		put_chars(&pack, answer->hint);
	}
	return pack.failed ? 0 : pack.len;
}

fallible answer_decode(const void *bytes, size_t len, struct answer *out)
{
	struct answer answer = {0};
	struct unpack in;

	unpack_init(&in, bytes, len);
	hold(&in, len <= ORDER_SIZE_MAX);
	answer.kind = (enum answer_kind)within(&in, unpack_u8(&in), 0, ANSWER_KIND_COUNT - 1);
	answer.to = (enum order_kind)within(&in, unpack_u8(&in), 0, ORDER_KIND_COUNT - 1);
	answer.id = unpack_u32(&in);
	if (answer.kind == ANSWER_MORE)
		hold(&in, answer.to == ORDER_IMPORT); // no other order is answered twice
	if (!in.failed && answer.kind == ANSWER_DONE)
		order_get_done(&in, &answer);
	if (!in.failed && answer.kind == ANSWER_REFUSED)
		get_refusal(&in, &answer);
	if (!unpack_end(&in))
		return err_new(INVALID, "bad_order", "the answer is malformed");
	*out = answer;
	return OK;
}

const char *order_word(enum order_kind kind)
{
	static const char *const words[] = {
		[ORDER_HELLO] = "hello",	 [ORDER_BUILD] = "build",
		[ORDER_DESTROY] = "destroy",	 [ORDER_CGROUP] = "cgroup",
		[ORDER_KILL] = "kill",		 [ORDER_IMPORT] = "import",
		[ORDER_FREEZE] = "freeze",	 [ORDER_FORGET] = "forget",
		[ORDER_LIST] = "list",		 [ORDER_BOXES] = "boxes",
		[ORDER_ADOPT] = "adopt",	 [ORDER_STOP] = "stop",
		[ORDER_PAUSE] = "pause",	 [ORDER_THAW] = "thaw",
		[ORDER_INVENTORY] = "inventory", [ORDER_NETWORK] = "network",
		[ORDER_USAGE] = "usage",
	};

	return kind < ORDER_KIND_COUNT ? words[kind] : "unknown";
}

int order_fds(enum order_kind kind)
{
	static const int fds[] = {
#define X(kind_, what, count) [ORDER_##kind_] = count,
		ORDER_KINDS(X)
#undef X
	};

	return kind < ORDER_KIND_COUNT ? fds[kind] : 0;
}

int order_brings(const struct order *order)
{
	return order->kind == ORDER_NETWORK && order->net;
}

int answer_fds(const struct answer *answer)
{
	if (answer->kind != ANSWER_DONE)
		return answer->kind == ANSWER_MORE;
	return order_fds(answer->to) + (answer->to == ORDER_CGROUP ? (int)answer->join_count : 0) +
	       (answer->net ? ORDER_NET_FDS : 0);
}
