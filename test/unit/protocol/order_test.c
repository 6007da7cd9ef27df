#include "protocol/order.h"

#include "tap.h"

static uint8_t bytes[ORDER_SIZE_MAX + 1], again[ORDER_SIZE_MAX];
static const char box[] = "box-0123456789abcdef0123456789abcdef0123456789abcdef";
static const char volume[] = "vol-0123456789abcdef0123456789abcdef0123456789abcdef";

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef01234567"
#define LAYER ORDER_LAYERS DIGITS

static struct order order_of(enum order_kind kind, const char *name)
{
	struct order order = {.kind = kind, .id = 7, .limits = LIMITS_DEFAULT, .version = 1};

	snprintf(order.box, sizeof(order.box), "%s", box);
	snprintf(order.name, sizeof(order.name), "%s", name);
	snprintf(order.host, sizeof(order.host), "my-box");
	snprintf(order.trace, sizeof(order.trace), "trace-1");
	snprintf(order.parent, sizeof(order.parent), LAYER);
	snprintf(order.digest, sizeof(order.digest), DIGITS "01234567");
	snprintf(order.base, sizeof(order.base), "host");
	snprintf(order.note, sizeof(order.note), "{}");
	snprintf(order.volume, sizeof(order.volume), "%s", volume);
	snprintf(order.path, sizeof(order.path), "/data");
	snprintf(order.subpath, sizeof(order.subpath), "a/b");
	return order;
}

static bool decodes(size_t len)
{
	struct order out;
	auto_err err = order_decode(bytes, len, &out);

	return !err;
}

TEST(orders, "every kind of order is decoded as encoded; no prefix is, nor one byte more")
{
	for (int kind = 0; kind < ORDER_KIND_COUNT; kind++) {
		const char *name = kind == ORDER_CGROUP	 ? "instance_1a"
				   : kind == ORDER_LAYER ? LAYER
							 : "python-3.11";
		struct order out, order = order_of((enum order_kind)kind, name);
		size_t len = order_encode(&order, bytes, sizeof(bytes));

		CHECK(len > 0);
		CHECK_OK(order_decode(bytes, len, &out));
		CHECK(out.kind == order.kind && out.id == 7);
		CHECK(order_encode(&out, again, sizeof(again)) == len);
		CHECK(memcmp(bytes, again, len) == 0);
		for (size_t cut = 0; cut < len; cut++)
			CHECK(!decodes(cut) && order_encode(&order, again, cut) == 0);
		bytes[len] = 0;
		CHECK(!decodes(len + 1));
		CHECK(strlen(order_word(order.kind)) >= 4);
	}
}

TEST(marks, "the mark of an exec cgroup is a word that is safe in a path, or none")
{
	static const char *const bad[] = {".", "..", "a/b", "A", "a-b", "a.b", " "};
	struct order order = order_of(ORDER_CGROUP, "");

	CHECK(decodes(order_encode(&order, bytes, sizeof(bytes))));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		order = order_of(ORDER_CGROUP, bad[i]);
		CHECK(!decodes(order_encode(&order, bytes, sizeof(bytes))));
	}
}

TEST(layers, "a layer is named by digits, lies on none or on a layer, and has a digest")
{
	static const char *const bad[] = {"", "python", ".layer-", ".layer-0", ".new-1"};
	struct order order = order_of(ORDER_LAYER, LAYER);

	order.parent[0] = 0;
	CHECK(decodes(order_encode(&order, bytes, sizeof(bytes))));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		order = order_of(ORDER_LAYER, bad[i]);
		CHECK(!decodes(order_encode(&order, bytes, sizeof(bytes))));
		order = order_of(ORDER_LAYER, LAYER);
		snprintf(order.parent, sizeof(order.parent), "%s", bad[i]);
		CHECK(!bad[i][0] || !decodes(order_encode(&order, bytes, sizeof(bytes))));
	}
	order = order_of(ORDER_LAYER, LAYER);
	order.digest[0] = 'g';
	CHECK(!decodes(order_encode(&order, bytes, sizeof(bytes))));
	order = order_of(ORDER_IMPORT, LAYER);
	CHECK(!decodes(order_encode(&order, bytes, sizeof(bytes))));
	order = order_of(ORDER_BUILD, LAYER);
	CHECK(decodes(order_encode(&order, bytes, sizeof(bytes))) && order_brings(&order) == 0);
}

TEST(build, "a build keeps its template, host name and limits")
{
	struct order out, order = order_of(ORDER_BUILD, "host");
	size_t len;

	order.ephemeral = true;
	order.limits.inodes = 131072;
	order.limits.wall_time_ms = 60000;
	len = order_encode(&order, bytes, sizeof(bytes));
	CHECK_OK(order_decode(bytes, len, &out));
	CHECK_STR(out.box, box);
	CHECK_STR(out.name, "host");
	CHECK_STR(out.host, "my-box");
	CHECK(out.ephemeral && memcmp(&out.limits, &order.limits, sizeof(out.limits)) == 0);
	CHECK(!out.ahead);
	order.ahead = true;
	CHECK_OK(order_decode(bytes, order_encode(&order, bytes, sizeof(bytes)), &out));
	CHECK(out.ahead);
	order.again = true; // an existing box gets no rootfs mounts
	CHECK(!decodes(order_encode(&order, bytes, sizeof(bytes))));
}

static bool order_passes(struct order order)
{
	size_t len = order_encode(&order, bytes, sizeof(bytes));

	return len && decodes(len);
}

TEST(order_laws, "an order with a forbidden value is refused")
{
	static const char *const hosts[] = {"", "-a", "A", "a.b", "a_b", "a b"};
	static const char *const names[] = {"", "..", "a/b", ".hidden", "a..b"};
	struct order order;

	CHECK(order_passes(order_of(ORDER_BUILD, "host")));
	CHECK(order_passes(order_of(ORDER_LIST, "")));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CHECK(!order_passes(order_of(ORDER_BUILD, names[i])));
		CHECK(!order_passes(order_of(ORDER_IMPORT, names[i])));
		CHECK(i == 0 || !order_passes(order_of(ORDER_LIST, names[i])));
	}
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		order = order_of(ORDER_BUILD, "host");
		snprintf(order.host, sizeof(order.host), "%s", hosts[i]);
		CHECK(!order_passes(order));
	}
	order = order_of(ORDER_DESTROY, "");
	memcpy(order.box + 4, "../", 3);
	CHECK(!order_passes(order));
	order.box[0] = 0;
	CHECK(!order_passes(order));
	memset(order.box, 'a', sizeof(order.box)); // no NUL: our own mistake, caught by the encoder
	CHECK(order_encode(&order, bytes, sizeof(bytes)) == 0);
	order = order_of(ORDER_KILL, "");
	order.exec_cgroup = 512;
	CHECK(!order_passes(order));
	CHECK(!order_passes((struct order){.kind = ORDER_KIND_COUNT}));
	order = order_of(ORDER_DESTROY, "");
	memcpy(order.trace, "a\nb", 4);
	CHECK(!order_passes(order));
	order.trace[0] = 0;
	CHECK(order_passes(order));
}

TEST(limit_laws, "limits out of range are refused")
{
	struct order order = order_of(ORDER_BUILD, "host");
	struct limits limits = LIMITS_DEFAULT;

#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		order.limits = limits;                                                             \
		order.limits.field = (value);                                                      \
		CHECK(!order_passes(order));                                                       \
	} while (0)
	REFUSED(memory, 0);
	REFUSED(memory, UINT64_MAX);
	REFUSED(cpu_milli, 0);
	REFUSED(cpu_milli, UINT32_MAX);
	REFUSED(pids, 0);
	REFUSED(pids, UINT32_MAX);
	REFUSED(disk, UINT64_MAX);
	REFUSED(inodes, UINT64_MAX);
	REFUSED(output, UINT64_MAX);
	REFUSED(cpu_time_ms, UINT64_MAX);
	REFUSED(wall_time_ms, UINT64_MAX);
#undef REFUSED
}

TEST(volumes, "a volume has an id; its paths lead nowhere else")
{
	static const char *const bad[] = {"",	  "/",	   "data",    "/a/..", "/a//b",	 "/a/",
					  "/./a", "/proc", "/proc/1", "/sys",  "/dev/x", "/run"};
	static const char *const good[] = {"/data", "/a/b", "/process", "/home/x/.cache", "/a..b"};
	struct order order = order_of(ORDER_MOUNT, "");

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(order.path, sizeof(order.path), "%s", bad[i]);
		CHECK(!order_passes(order));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		snprintf(order.path, sizeof(order.path), "%s", good[i]);
		CHECK(order_passes(order));
	}
	for (size_t i = 1; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(order.subpath, sizeof(order.subpath), "%s", i == 2 ? "a/../.." : bad[i]);
		CHECK(!order_passes(order));
	}
	order.subpath[0] = 0;
	CHECK(order_passes(order));
	memcpy(order.volume, box, sizeof(box));
	CHECK(!order_passes(order));
	order = order_of(ORDER_VOLUMES, "");
	order.volume[0] = 0;
	CHECK(order_passes(order));
	order = order_of(ORDER_UNVOLUME, "");
	order.volume[0] = 0;
	CHECK(!order_passes(order));
}

static struct answer done(enum order_kind to)
{
	struct answer answer = {
		.kind = ANSWER_DONE,
		.to = to,
		.id = 9,
		.exec_cgroup = 3,
		.join_count = 2,
		.bytes = 1 << 20,
		.files = 77,
		.host = {.version = 1,
			 .epoch = UINT64_MAX,
			 .can_limit_disk = true,
			 .disk = "ext4-image",
			 .cgroup = "hybrid",
			 .net = "sk_lookup",
			 .boxes_max = ORDER_BOXES_MAX},
		.pid = 4711,
		.exec_cgroups = TALK_CGROUPS_MAX,
		.cpu_us = UINT64_MAX,
		.spent = {UINT64_MAX, 1},
		.inventory = {.alive = 1, .odd_count = 99},
		.digest = DIGITS "01234567",
		.diff_id = DIGITS "76543210",
	};

	for (int i = 0; to == ORDER_BOXES && i < ORDER_BOXES_PAGE; i++) {
		memcpy(answer.cells[i].box, box, sizeof(box));
		answer.cells[i].state = (enum order_box_state)(i % ORDER_BOX_STATE_COUNT);
		answer.cells[i].pid = (uint32_t)i;
		answer.cell_count = (uint32_t)i + 1;
	}
	for (int i = 0; to == ORDER_INVENTORY && i < ORDER_ODDS_MAX; i++) {
		memset(answer.odds[i].what, 'w', sizeof(answer.odds[i].what) - 1);
		memcpy(answer.odds[i].name, box, sizeof(box));
		answer.odd_count = (uint32_t)i + 1;
	}
	for (int i = 0; to == ORDER_VOLUMES && i < ORDER_VOLUMES_PAGE; i++) {
		memcpy(answer.volumes[i].volume, volume, sizeof(volume));
		answer.volumes[i].bytes = ORDER_USAGE_UNKNOWN;
		answer.volume_count = (uint32_t)i + 1;
	}
	for (int i = 0; to == ORDER_LIST && i < ORDER_LIST_PAGE; i++) {
		struct order_template *template = &answer.templates[i];

		memset(template->name, 'a' + i, TEMPLATE_NAME_MAX - 1);
		template->bytes = 1ull << 50;
		template->created = 1794708585123;
		template->is_host = i == 0;
		answer.template_count = (uint32_t)i + 1;
	}
	return answer;
}

static bool answer_decodes(size_t len)
{
	struct answer out;
	auto_err err = answer_decode(bytes, len, &out);

	return !err;
}

static bool answer_survives(struct answer answer)
{
	size_t len = answer_encode(&answer, bytes, sizeof(bytes));
	struct answer out;
	auto_err err = answer_decode(bytes, len, &out);

	if (!len || err || answer_encode(&out, again, sizeof(again)) != len ||
	    memcmp(bytes, again, len) != 0)
		return false;
	for (size_t cut = 0; cut < len; cut++)
		if (answer_decodes(cut))
			return false;
	bytes[len] = 0;
	return !answer_decodes(len + 1);
}

TEST(answers, "every kind of answer is decoded as encoded, the fullest pages too")
{
	struct answer refused = {.kind = ANSWER_REFUSED, .to = ORDER_BUILD, .error = ERR_NO_SPACE};

	for (int kind = 0; kind < ORDER_KIND_COUNT; kind++)
		CHECK(answer_survives(done((enum order_kind)kind)));
	CHECK(answer_survives((struct answer){.kind = ANSWER_MORE, .to = ORDER_IMPORT, .id = 1}));
	memset(refused.reason, 'r', sizeof(refused.reason) - 1);
	memset(refused.message, 'm', sizeof(refused.message) - 1);
	memset(refused.hint, 'h', sizeof(refused.hint) - 1);
	CHECK(answer_survives(refused));
}

static bool answer_passes(struct answer answer)
{
	size_t len = answer_encode(&answer, bytes, sizeof(bytes));

	return len && answer_decodes(len);
}

TEST(answer_laws, "an impossible answer is refused")
{
	struct answer answer = done(ORDER_HELLO);

	snprintf(answer.host.disk, sizeof(answer.host.disk), "floppy");
	CHECK(!answer_passes(answer));
	answer = done(ORDER_HELLO);
	snprintf(answer.host.cgroup, sizeof(answer.host.cgroup), "v3");
	CHECK(!answer_passes(answer));
	answer = done(ORDER_HELLO);
	snprintf(answer.host.net, sizeof(answer.host.net), "veth");
	CHECK(!answer_passes(answer));
	answer = done(ORDER_HELLO);
	answer.host.boxes_max = 0;
	CHECK(!answer_passes(answer));
	answer = done(ORDER_CGROUP);
	answer.join_count = 3;
	CHECK(!answer_passes(answer));
	answer = done(ORDER_BOXES);
	answer.cells[1].box[0] = 'x';
	CHECK(!answer_passes(answer));
	answer = done(ORDER_BOXES);
	answer.cell_count = ORDER_BOXES_PAGE + 1;
	CHECK(!answer_passes(answer));
	answer = done(ORDER_ADOPT);
	answer.exec_cgroups = TALK_CGROUPS_MAX + 1;
	CHECK(!answer_passes(answer));
	answer = done(ORDER_INVENTORY);
	answer.odds[0].name[3] = '\n';
	CHECK(!answer_passes(answer));
	answer = done(ORDER_LIST);
	answer.template_count = ORDER_LIST_PAGE + 1;
	CHECK(!answer_passes(answer));
	answer = done(ORDER_LIST);
	answer.templates[5].name[0] = '.';
	CHECK(!answer_passes(answer));
	CHECK(!answer_passes((struct answer){.kind = ANSWER_MORE, .to = ORDER_BUILD}));
	CHECK(!answer_passes((struct answer){.kind = ANSWER_REFUSED}));
	CHECK(!answer_passes((struct answer){.kind = ANSWER_REFUSED, .reason = "Bad Word"}));
	CHECK(!answer_passes((struct answer){.kind = ANSWER_KIND_COUNT}));
}

TEST(tables, "words and fds come from the table of orders")
{
	CHECK_STR(order_word(ORDER_BUILD), "build");
	CHECK_STR(order_word(ORDER_KIND_COUNT), "unknown");
	CHECK(order_brings(&(struct order){.kind = ORDER_NETWORK, .net = true}) == 1);
	CHECK(order_brings(&(struct order){.kind = ORDER_BUILD, .net = true}) == 0);
	CHECK(order_fds(ORDER_BUILD) == 3 && order_fds(ORDER_DESTROY) == 0);
}

TEST(fds, "the number of fds of an answer follows from its kind, its joins and its network")
{
	static const enum order_kind with[] = {ORDER_BUILD, ORDER_NETWORK};
	struct answer answer = done(ORDER_CGROUP), out;

	CHECK(answer_fds(&answer) == 4);
	answer.join_count = 1;
	CHECK(answer_fds(&answer) == 3);
	for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++) {
		answer = done(with[i]);
		CHECK(answer_fds(&answer) == order_fds(with[i]));
		answer.net = true;
		CHECK_OK(answer_decode(bytes, answer_encode(&answer, bytes, sizeof(bytes)), &out));
		CHECK(out.net && answer_fds(&out) == order_fds(with[i]) + ORDER_NET_FDS);
		CHECK(answer_fds(&out) <= ORDER_FDS_MAX);
	}
	answer.kind = ANSWER_REFUSED;
	CHECK(answer_fds(&answer) == 0);
	answer = (struct answer){.kind = ANSWER_MORE, .to = ORDER_IMPORT};
	CHECK(answer_fds(&answer) == 1);
}
