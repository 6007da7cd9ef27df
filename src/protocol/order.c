// Encodes and decodes orders and answers by the rows of order.h. Each kind has its own fields on
// the wire and no others. Both ends check the same rules: the warden because the daemon may be
// compromised, the daemon so that a bug of ours is caught at the boundary.
#include "protocol/order.h"

#include <assert.h>

#include "codec/pack.h"

#define REASON_WORD "abcdefghijklmnopqrstuvwxyz0123456789_"
#define KIND(kind) (1u << (kind))

// Sizes of the largest messages: a text is its length, its bytes and a NUL.
#define TEXT_SIZE(room) (4 + (room))
#define ANSWER_HEAD (1 + 1 + 4)
static_assert(ANSWER_HEAD + 1 + ORDER_LIST_PAGE * (TEXT_SIZE(TEMPLATE_NAME_MAX) + 1 + 1 + 8 + 8) <=
		      ORDER_SIZE_MAX,
	      "a page of templates fits a message");
static_assert(ANSWER_HEAD + 1 + ORDER_BOXES_PAGE * (TEXT_SIZE(ID_BOX_LEN + 1) + 1 + 4) <=
		      ORDER_SIZE_MAX,
	      "a page of cells fits a message");
static_assert(ANSWER_HEAD + 1 + ORDER_VOLUMES_PAGE * (TEXT_SIZE(ID_BOX_LEN + 1) + 8) <=
		      ORDER_SIZE_MAX,
	      "a page of volumes fits a message");
static_assert(ANSWER_HEAD + sizeof(struct order_inventory) + 1 +
			      ORDER_ODDS_MAX * (TEXT_SIZE(24) + TEXT_SIZE(ID_BOX_LEN + 1)) <=
		      ORDER_SIZE_MAX,
	      "a census fits a message");
static_assert(ANSWER_HEAD + 1 + TEXT_SIZE(40) + 2 * TEXT_SIZE(256) <= ORDER_SIZE_MAX,
	      "a refusal fits a message");

enum order_check_row {
	CHECK_ANY,
	CHECK_TRACE,
	CHECK_WORD,
	CHECK_BOX_ID,
	CHECK_TEMPLATE,
	CHECK_DISK,
	CHECK_CGROUP_VERSION,
	CHECK_STEERING,
	// of an order
	CHECK_BOX,
	CHECK_NEXT,
	CHECK_NAME,
	CHECK_PARENT,
	CHECK_DIGEST,
	CHECK_HOST_NAME,
	CHECK_LIMITS,
	CHECK_AHEAD,
	CHECK_VOLUME,
	CHECK_VOLUME_ID,
	CHECK_PATH,
	CHECK_SUBPATH,
};

static const struct field order_fields[] = {
#define F(type, field, wire, check, kinds)                                                         \
	FIELD_ROW(struct order, field, CHECK_##check, kinds, wire)
	ORDER_FIELDS(F)
#undef F
};
static const struct field answer_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct answer, host.field, CHECK_##check, ORDER_BIT(HELLO), wire)
	ORDER_HOST_FIELDS(F)
#undef F
#define F(type, field, wire, check, kinds)                                                         \
	FIELD_ROW(struct answer, field, CHECK_##check, kinds, wire)
		ANSWER_FIELDS(F)
#undef F
};
static const struct field template_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct order_template, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	ORDER_TEMPLATE_FIELDS(F)
#undef F
};
static const struct field box_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct order_box, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	ORDER_BOX_FIELDS(F)
#undef F
};
static const struct field volume_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct order_volume, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	ORDER_VOLUME_FIELDS(F)
#undef F
};
static const struct field odd_fields[] = {
#define F(type, field, wire, check)                                                                \
	FIELD_ROW(struct order_odd, field, CHECK_##check, FIELD_KINDS_ALL, wire)
	ORDER_ODD_FIELDS(F)
#undef F
};

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

static bool is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!(s.at[i] >= '0' && s.at[i] <= '9') && !(s.at[i] >= 'a' && s.at[i] <= 'f'))
			return false;
	return true;
}

static bool order_is_hashed(struct str name, const char *prefix)
{
	return name.len == strlen(prefix) + ORDER_LAYER_HEX && str_starts(name, prefix) &&
	       is_hex(str_skip(name, strlen(prefix)));
}

bool order_is_layer(struct str name)
{
	return order_is_hashed(name, ORDER_LAYERS);
}

bool order_is_step(struct str name)
{
	return order_is_hashed(name, ORDER_STEPS);
}

bool order_is_fork(struct str s)
{
	size_t head = strlen(ORDER_FORK);

	return s.len > head && s.len < TEMPLATE_NAME_MAX && str_starts(s, ORDER_FORK) &&
	       strspn(s.at + head, "0123456789abcdef") == s.len - head;
}

bool order_is_trace(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] < ' ' || text.at[i] > '~')
			return false;
	return text.len < ORDER_TRACE_MAX;
}

static bool is_one_of(struct str word, const char *a, const char *b, const char *c)
{
	return str_is(word, a) || str_is(word, b) || str_is(word, c);
}

static bool order_name_is_valid(const struct order *order, struct str name)
{
	if (order->kind == ORDER_CGROUP)
		return strspn(name.at, REASON_WORD) == name.len;
	if (order->kind == ORDER_LAYER || order_is_layer(name))
		return order_is_layer(name) && order->kind != ORDER_IMPORT &&
		       order->kind != ORDER_FREEZE && order->kind != ORDER_SNAPSHOT;
	if (order_is_fork(name) || order_is_step(name))
		return order->kind == ORDER_SNAPSHOT || order->kind == ORDER_BUILD ||
		       order->kind == ORDER_FORGET ||
		       (order->kind == ORDER_LIST && order_is_step(name));
	return id_is_template(name) ||
	       (order->kind == ORDER_LIST &&
		(name.len == 0 || str_is(name, ORDER_LAYERS) || str_is(name, ORDER_STEPS))) ||
	       (order->kind == ORDER_FORGET && order_is_unfinished(name));
}

// Checks beyond the bounds of a row. A text has its NUL here.
static bool order_check(uint8_t check, const void *message, const void *member)
{
	const struct order *order = message;

	switch ((enum order_check_row)check) {
	case CHECK_TRACE:
		return order_is_trace(str_of(member));
	case CHECK_WORD:
		return *(const char *)member &&
		       !((const char *)member)[strspn(member, REASON_WORD)];
	case CHECK_BOX_ID:
		return id_is_box(str_of(member));
	case CHECK_TEMPLATE:
		return id_is_template(str_of(member)) || order_is_layer(str_of(member)) ||
		       order_is_step(str_of(member));
	case CHECK_DISK:
		return is_one_of(str_of(member), "btrfs", "ext4-image", "directory");
	case CHECK_CGROUP_VERSION:
		return is_one_of(str_of(member), "v1", "hybrid", "v2");
	case CHECK_STEERING:
		return is_one_of(str_of(member), "sk_lookup", "nft", "none");
	case CHECK_BOX:
		return id_is_box(str_of(member)) || (order->kind == ORDER_BOXES && !order->box[0]);
	case CHECK_NEXT:
		return id_is_box(str_of(member)) || !order->next[0];
	case CHECK_NAME:
		return order_name_is_valid(order, str_of(member));
	case CHECK_PARENT:
		return !order->parent[0] || order_is_layer(str_of(member));
	case CHECK_DIGEST:
		return strlen(member) == ORDER_DIGEST && is_hex(str_of(member));
	case CHECK_HOST_NAME:
		return is_host_name(str_of(member));
	case CHECK_LIMITS:
		return order->limits.memory >= 1 << 20 && order->limits.cpu_milli >= 1 &&
		       order->limits.cpu_milli <= 1024 * 1000 && order->limits.pids >= 1 &&
		       order->limits.pids <= 1 << 22;
	case CHECK_AHEAD:
		return !order->ahead || !order->again;
	case CHECK_VOLUME:
		return id_is_volume(str_of(member)) ||
		       (order->kind == ORDER_VOLUMES && !order->volume[0]);
	case CHECK_VOLUME_ID:
		return id_is_volume(str_of(member));
	case CHECK_PATH:
		return volume_is_path(str_of(member));
	case CHECK_SUBPATH:
		return !order->subpath[0] || volume_is_subpath(str_of(member));
	default:
		return false;
	}
}

size_t order_encode(const struct order *order, void *room, size_t size)
{
	struct pack pack;

	if (order->kind >= ORDER_KIND_COUNT)
		return 0;
	pack_init(&pack, room, size < ORDER_SIZE_MAX ? size : ORDER_SIZE_MAX);
	pack_u8(&pack, (uint8_t)order->kind);
	pack_u32(&pack, order->id);
	fields_put(FIELDS(order_fields), KIND(order->kind), order, &pack);
	return pack.failed ? 0 : pack.len;
}

fallible order_decode(const void *bytes, size_t len, struct order *out)
{
	struct order order = {0};
	struct unpack in;

	unpack_init(&in, bytes, len);
	order.kind = (enum order_kind)unpack_u8(&in);
	order.id = unpack_u32(&in);
	if (len > ORDER_SIZE_MAX || order.kind >= ORDER_KIND_COUNT)
		in.failed = true;
	else
		fields_get(FIELDS(order_fields), order_check, KIND(order.kind), &in, &order);
	if (!unpack_end(&in))
		return err_new(INVALID, "bad_order", "the order is malformed");
	*out = order;
	return OK;
}

// The page at the end of an answer.
static const struct page {
	size_t at, count_at, item_size; // in struct answer
	uint8_t max;
	const struct field *rows;
	size_t row_count;
} pages[ORDER_KIND_COUNT] = {
#define PAGE(items, count, most, table)                                                            \
	{                                                                                          \
		offsetof(struct answer, items), offsetof(struct answer, count),                    \
			sizeof(((struct answer *)NULL)->items[0]), most, table,                    \
			sizeof(table) / sizeof(*(table))                                           \
	}
	[ORDER_LIST] = PAGE(templates, template_count, ORDER_LIST_PAGE, template_fields),
	[ORDER_BOXES] = PAGE(cells, cell_count, ORDER_BOXES_PAGE, box_fields),
	[ORDER_VOLUMES] = PAGE(volumes, volume_count, ORDER_VOLUMES_PAGE, volume_fields),
	[ORDER_INVENTORY] = PAGE(odds, odd_count, ORDER_ODDS_MAX, odd_fields),
#undef PAGE
};

static void page_put(const struct page *page, const struct answer *answer, struct pack *pack)
{
	uint32_t count = *(const uint32_t *)((const char *)answer + page->count_at);
	const char *items = (const char *)answer + page->at;

	if (count > page->max)
		pack->failed = true;
	pack_u8(pack, (uint8_t)count);
	for (uint32_t i = 0; !pack->failed && i < count; i++)
		fields_put(page->rows, page->row_count, FIELD_KINDS_ALL,
			   items + i * page->item_size, pack);
}

static void page_get(const struct page *page, struct unpack *in, struct answer *answer)
{
	uint32_t count = unpack_u8(in);
	char *items = (char *)answer + page->at;

	if (count > page->max)
		in->failed = true;
	*(uint32_t *)((char *)answer + page->count_at) = count;
	for (uint32_t i = 0; !in->failed && i < count; i++)
		fields_get(page->rows, page->row_count, order_check, FIELD_KINDS_ALL, in,
			   items + i * page->item_size);
}

// The kind of its rows; 0: it has none.
static uint32_t answer_bit(const struct answer *answer)
{
	if (answer->kind == ANSWER_REFUSED)
		return ORDER_BIT_REFUSED;
	return answer->kind == ANSWER_DONE ? KIND(answer->to) : 0;
}

static const struct page *answer_page(const struct answer *answer)
{
	bool has = answer->kind == ANSWER_DONE && pages[answer->to].rows;

	return has ? &pages[answer->to] : NULL;
}

size_t answer_encode(const struct answer *answer, void *room, size_t size)
{
	const struct page *page = answer_page(answer);
	struct pack pack;

	pack_init(&pack, room, size < ORDER_SIZE_MAX ? size : ORDER_SIZE_MAX);
	pack_u8(&pack, (uint8_t)answer->kind);
	pack_u8(&pack, (uint8_t)answer->to);
	pack_u32(&pack, answer->id);
	fields_put(FIELDS(answer_fields), answer_bit(answer), answer, &pack);
	if (page)
		page_put(page, answer, &pack);
	return pack.failed ? 0 : pack.len;
}

fallible answer_decode(const void *bytes, size_t len, struct answer *out)
{
	struct answer answer = {0};
	const struct page *page;
	struct unpack in;

	unpack_init(&in, bytes, len);
	answer.kind = (enum answer_kind)unpack_u8(&in);
	answer.to = (enum order_kind)unpack_u8(&in);
	answer.id = unpack_u32(&in);
	// No order but IMPORT is answered twice.
	if (len > ORDER_SIZE_MAX || answer.kind >= ANSWER_KIND_COUNT ||
	    answer.to >= ORDER_KIND_COUNT ||
	    (answer.kind == ANSWER_MORE && answer.to != ORDER_IMPORT)) {
		in.failed = true;
	} else {
		fields_get(FIELDS(answer_fields), order_check, answer_bit(&answer), &in, &answer);
		page = answer_page(&answer);
		if (page)
			page_get(page, &in, &answer);
	}
	if (!unpack_end(&in))
		return err_new(INVALID, "bad_order", "the answer is malformed");
	*out = answer;
	return OK;
}

static const struct {
	const char *word;
	int fds;
} kinds[] = {
#define X(kind, word, what, fds) [ORDER_##kind] = {word, fds},
	ORDER_KINDS(X)
#undef X
};

const char *order_word(enum order_kind kind)
{
	return kind < ORDER_KIND_COUNT ? kinds[kind].word : "unknown";
}

int order_fds(enum order_kind kind)
{
	return kind < ORDER_KIND_COUNT ? kinds[kind].fds : 0;
}

int order_brings(const struct order *order)
{
	return order->kind == ORDER_LAYER || order->kind == ORDER_EXPORT ||
	       (order->kind == ORDER_NETWORK && order->net);
}

int answer_fds(const struct answer *answer)
{
	if (answer->kind != ANSWER_DONE)
		return answer->kind == ANSWER_MORE;
	return order_fds(answer->to) + (answer->to == ORDER_CGROUP ? (int)answer->join_count : 0) +
	       (answer->net ? ORDER_NET_FDS : 0);
}
