// Boxes outlive versions of cove: an old pid 1 and a new daemon exchange these messages, so their
// bytes never change. Each message is given by its length and the FNV-1a hash of its bytes.
#include "codec/pack.h"
#include "protocol/exec_label.h"
#include "protocol/fileop.h"
#include "protocol/order.h"
#include "protocol/talk.h"
#include "tap.h"

#define BOX_1 "box-0123456789abcdef0123456789abcdef0123456789abcdef"
#define BOX_2 "box-fedcba9876543210fedcba9876543210fedcba9876543210"
#define VOLUME "vol-0123456789abcdef0123456789abcdef0123456789abcdef"
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct golden {
	size_t len;
	uint64_t hash;
};

static char room[TALK_SIZE_MAX];

static bool is_golden(const char *what, size_t i, size_t len, const struct golden *golden)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t at = 0; at < len; at++)
		hash = (hash ^ (uint8_t)room[at]) * 0x100000001b3;
	if (len == golden->len && hash == golden->hash)
		return true;
	printf("# %s %zu: {%zu, 0x%016llx},\n", what, i, len, (unsigned long long)hash);
	return false;
}

TEST(orders, "the bytes of each kind of order are those of version 17")
{
	static const struct golden rows[ORDER_KIND_COUNT] = {
		{66, 0x756593445b9ab199},  {241, 0x5b7dcb515de6e978}, {131, 0xbf747dcc7d8f8d87},
		{90, 0x87fee26a37733ad7},  {78, 0xa9c6c8e7ae5e4a0b},  {28, 0x4d441d02abdfb6e6},
		{28, 0x39eda24716189b6d},  {28, 0x152ac8e77d517d08},  {28, 0x1c3f801773464527},
		{74, 0x3ff2a41ca70e86f6},  {75, 0x7cd9624878ac25cc},  {74, 0x001bd431a9d90cf8},
		{74, 0x61726e764137f927},  {74, 0xfeb7b655c55ce97a},  {17, 0xab97bd49a676fd83},
		{75, 0xde6a1b9306765667},  {74, 0x0c5812f61d7bf0ab},  {50, 0xf9fbb3e8624d8bf7},
		{117, 0x986faddca2441ea0}, {28, 0x3b9e7e3c3cf10d54},  {46, 0x4ceb1a972c5a049f},
		{82, 0x8a629148c02e4b82},  {74, 0xc2742322ddf2b6d1},  {74, 0xe6da6b567f36ed5c},
		{154, 0x6903696cc38877b0}, {17, 0x1a1a7c333757cc3a},  {154, 0xffb224d886e999fa},
		{155, 0x82007a1c2d7c4e39},
	};

	CHECK(ORDER_VERSION == 17);
	for (size_t i = 0; i < ORDER_KIND_COUNT; i++) {
		struct order order = {
			.kind = (enum order_kind)i,
			.id = 0x01020304,
			.trace = "trace-1",
			.box = BOX_1,
			.name = "python",
			.parent = ".layer-1",
			.digest = "0123",
			.host = "my-box",
			.limits = {1 << 20, 2, 3, 4, 5, 6, 7, 8, 9, 1ull << 40},
			.ephemeral = true,
			.net = true,
			.cpu = true,
			.ahead = true,
			.exec_cgroup = 0x1ff,
			.version = 0x0a0b0c0d,
			.next = BOX_2,
			.base = "python",
			.since = 1794708585123,
			.note = "{\"a\":1}",
			.part = ORDER_PART_CHANGES,
			.zstd = true,
			.volume = VOLUME,
			.size = 1 << 30,
			.number = 1,
			.read_only = true,
			.path = "/data",
			.subpath = "a/b",
			.mounts = 2,
		};

		order.again = i == ORDER_CGROUP;
		CHECK(is_golden("order", i, order_encode(&order, room, sizeof(room)), &rows[i]));
	}
}

static struct answer answer_of(enum order_kind to)
{
	struct answer answer = {
		.kind = ANSWER_DONE,
		.to = to,
		.id = 0x01020304,
		.exec_cgroup = 0x1ff,
		.join_count = 2,
		.dropped = {1, 2, 3, 4, 5},
		.net = true,
		.marked = true,
		.host = {10, 1, 0x0102030405060708, true, false, "btrfs", "v2", "nft", 16384},
		.bytes = 1ull << 50,
		.files = 0x010203,
		.pid = 4711,
		.frozen = true,
		.exec_cgroups = 77,
		.cpu_us = UINT64_MAX,
		.spent = {1, 2, 3, 4, 5, 6, 7, 8},
		.inventory = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 0},
		.usage = {1, 2, 3, ORDER_USAGE_UNKNOWN, 5, 6},
		.trash = 1 << 20,
		.frozen_us = 0x01020304,
		.note = "{\"a\":1}",
		.digest = "0123",
		.diff_id = "4567",
	};

	if (to == ORDER_LIST) {
		answer.template_count = 2;
		answer.templates[0] = (struct order_template){"host", true, false, 5,
							      1794708585123};
		answer.templates[1] = (struct order_template){"python", false, true, 1ull << 40, 1};
	} else if (to == ORDER_BOXES) {
		answer.cell_count = 2;
		answer.cells[0] = (struct order_box){BOX_1, ORDER_BOX_FROZEN, 4711};
		answer.cells[1] = (struct order_box){BOX_2, ORDER_BOX_KEPT, 0};
	} else if (to == ORDER_INVENTORY) {
		answer.odd_count = 1;
		answer.odds[0] = (struct order_odd){"group_without_box", "some thing"};
	}
	if (to == ORDER_VOLUMES) {
		answer.volume_count = 1;
		answer.volumes[0] = (struct order_volume){VOLUME, 4096};
	}
	return answer;
}

TEST(answers, "the bytes of each kind of answer are those of version 17")
{
	static const struct golden rows[ORDER_KIND_COUNT + 2] = {
		{53, 0x9031832927e71330},  {11, 0x934242c501d1dd35}, {14, 0xb11bc8f9ad439a97},
		{15, 0xe77234fac66100f5},  {6, 0x0b1e7c717e8485f9},  {22, 0xdaf758ee5db6fdee},
		{22, 0x3686841e57d28cab},  {6, 0x190ab2f224063b6c},  {63, 0x326ba374e4d44926},
		{131, 0xbbffe8a4080dbbcf}, {87, 0x37ac453feb28d6e8}, {14, 0x2ad850c979b1e0d0},
		{6, 0xa5a7631d940932e1},   {6, 0xaa687bb06ed05142},  {116, 0x2f1f49cdeec444c0},
		{7, 0xaeb65cdbc708c86f},   {54, 0x1196b935d0b20886}, {42, 0x45b059618458807b},
		{22, 0x789b6dbb9eab79fb},  {18, 0x3974edc780df9fa5}, {40, 0x16d8be358131ad49},
		{6, 0x44f1625c8454fe2a},   {6, 0x496ad774c283790b},  {72, 0x69d766a48f53ade5},
		{6, 0x0d9f5cdd02a251b5},   {14, 0x959b4ed9534ef656}, {6, 0x16d9ea881b97eaf7},
		{14, 0xba8a63ff551a08cc},  {62, 0x1248eca43ccb4478}, {6, 0x153747587028e4fd},
	};
	struct answer refused = {.kind = ANSWER_REFUSED,
				 .to = ORDER_BUILD,
				 .id = 5,
				 .error = ERR_NO_SPACE,
				 .reason = "no_space",
				 .message = "the disk is full",
				 .hint = "delete something"};
	struct answer more = {.kind = ANSWER_MORE, .to = ORDER_IMPORT, .id = 6};
	size_t i = 0;

	for (; i < ORDER_KIND_COUNT; i++) {
		struct answer answer = answer_of((enum order_kind)i);

		CHECK(is_golden("answer", i, answer_encode(&answer, room, sizeof(room)), &rows[i]));
	}
	CHECK(is_golden("answer", i, answer_encode(&refused, room, sizeof(room)), &rows[i]));
	i++;
	CHECK(is_golden("answer", i, answer_encode(&more, room, sizeof(room)), &rows[i]));
}

TEST(talk, "the bytes of each message between daemon and pid 1 are those of version 1")
{
	static const struct golden rows[] = {
		{104, 0xec5322f56f5e0f96}, {42, 0x820108757ef164e2}, {10, 0x3725b080af52468a},
		{5, 0x7e2f660cc6f3cbd1},   {14, 0x93e36344525aa79d}, {13, 0xbdd012b57c772f13},
		{25, 0xe20fbf36eaf8ccd8},  {9, 0x783701b53c3d301f},  {16, 0x0faa596eba5db01c},
		{27, 0x50337d607c7796ea},  {5, 0x3d59e6454405b68c},  {31, 0x3cf1c3c0e4a8549e},
		{5, 0x56e24c578cf6a6ca},   {5, 0xd7ad242fbc503531},  {14, 0x89ef25ea261c349b},
		{23, 0x969f3d355b74d11a},  {5, 0x2426bfad97b8fd3e},  {5, 0xafaa8280fa228f7f},
		{5, 0xa2fb9f567cd3251c},
	};
	const char *argv[] = {"sh", "-c", "echo \xff", "", NULL}, *env[] = {"A=b", "C=", NULL};
	struct talk talks[] = {
		{.kind = TALK_EXEC,
		 .conn = 0x01020304,
		 .exec = {.flags = TALK_EXEC_PTY | TALK_EXEC_HOME | TALK_EXEC_LABEL,
			  .exec_cgroup = 511,
			  .cols = 80,
			  .rows = 4096,
			  .user = STR("1000:1000"),
			  .cwd = STR("/workspace"),
			  .argc = 4,
			  .envc = 2,
			  .argv = argv,
			  .env = env,
			  .tag = STR("a\0b")}},
		{.kind = TALK_EXEC,
		 .conn = 1,
		 .exec = {.argc = 1, .argv = argv, .env = env, .tag = STR("x")}},
		{.kind = TALK_SIGNAL, .conn = 3, .signal = 64, .alone = true},
		{.kind = TALK_FORGET, .conn = 4},
		{.kind = TALK_WORKER, .conn = 8, .worker = {.user = STR("1000")}},
		{.kind = TALK_READY, .ready = {.version = 1, .features = 0x80000001}},
		{.kind = TALK_BROKEN, .failed = {.errnum = 13, .note = "mount proc"}},
		{.kind = TALK_STARTED, .conn = 6, .started = {.pid = 4194304}},
		{.kind = TALK_FAILED,
		 .conn = 5,
		 .failed = {.step = TALK_STEP_EXEC, .errnum = 2, .note = "n"}},
		{.kind = TALK_EXITED,
		 .conn = 7,
		 .exited = {.pid = 9,
			    .status = 137,
			    .max_rss = 1ull << 40,
			    .cpu_us = 5,
			    .cgroup_empty = true}},
		{.kind = TALK_WORKER_IS, .conn = 8},
		{.kind = TALK_RAN,
		 .conn = 9,
		 .exited = {.pid = 7, .status = 9, .max_rss = 1, .cpu_us = 2, .over = true}},
		{.kind = TALK_ADOPT},
		{.kind = TALK_SHUT, .conn = 10},
		{.kind = TALK_LABEL, .conn = 11, .tag = STR("label\0\xff")},
		{.kind = TALK_HELD,
		 .conn = 12,
		 .held = {TALK_EXEC_PTY | TALK_EXEC_SPOOL, 510, 77, true, STR("tag")}},
		{.kind = TALK_HELD_END},
		{.kind = TALK_SYNC},
		{.kind = TALK_SYNCED},
	};

	CHECK(TALK_VERSION == 1 && COUNT(rows) == COUNT(talks));
	for (size_t i = 0; i < COUNT(talks); i++)
		CHECK(is_golden("talk", i, talk_encode(&talks[i], room, sizeof(room)), &rows[i]));
}

static const struct fileop_stat some_stat = {FILEOP_SYMLINK, 01777, 1, 2, 3, 4, 5, -7, 8};

TEST(fileops, "the bytes of requests to a file worker and of its answers never change")
{
	static const struct golden rows[] = {
		{147, 0xd7a76621309f1040}, {114, 0x8bad408aff9f4d2e}, {15, 0x54541c9339c89bda},
		{48, 0x6385d20e3daba050},  {48, 0x53ff422e940dbd9d},  {1, 0xaf63b94c8601b113},
		{1, 0xaf63b84c8601af60},   {1, 0xaf63bb4c8601b479},   {1, 0xaf63ba4c8601b2c6},
		{1, 0xaf63c54c8601c577},
	};
	const char *globs[] = {"*.c", "a/**", "node_modules", NULL};
	struct fileop_request request = {
		.verb = FILEOP_WRITE,
		.flags = FILEOP_STATS - 1, // all flags that are older
		.mode = 01644,
		.types = 7,
		.number = 65535,
		.pid = 0x01020304,
		.depth = UINT32_MAX,
		.limit = 1,
		.min = 2,
		.max = 1ull << 62,
		.since = 3,
		.base = STR("/workspace"),
		.path = STR("a \xff"),
		.other = STR("other"),
		.text = STR("text"),
		.includes = 2,
		.excludes = 1,
		.globs = globs,
		.bytes = STR("bytes\0"),
	};
	size_t i = 0;

	CHECK(is_golden("fileop", 0, fileop_encode_request(&request, room, sizeof(room)), rows));
	for (int kind = 0; kind < FILEOP_KIND_COUNT; kind++) {
		struct fileop_reply reply = {
			.kind = (enum fileop_kind)kind,
			.why = FILEOP_TOO_DEEP,
			.errnum = 4095,
			.text = STR("text"),
			.stat = some_stat,
			.count = 1,
			.bytes = 2,
			.skipped = 3,
			.more = true,
			.space = 4,
			.space_free = 5,
			.inodes = 6,
			.inodes_free = 7,
		};

		i++;
		CHECK(is_golden("fileop", i, fileop_encode_reply(&reply, room, sizeof(room)),
				&rows[i]));
	}
	CHECK(i + 1 == COUNT(rows));
}

TEST(items, "the bytes of items of a file worker's answers never change")
{
	static const struct golden golden = {111, 0x50ebf64d168776eb};
	struct pack pack;

	pack_init(&pack, room, sizeof(room));
	fileop_put_entry(&pack, &(struct fileop_entry){some_stat, STR("path"), STR("target")});
	fileop_put_match(&pack, &(struct fileop_match){STR("path"), 1ull << 40, 7, STR("line")});
	fileop_put_event(&pack, &(struct fileop_event){FILEOP_MOVE_TO, true, STR("path")});
	fileop_put_port(&pack, &(struct fileop_port){8080, true});
	CHECK(!pack.failed && is_golden("items", 0, pack.len, &golden));
}

TEST(processes, "the bytes of a process of a box never change")
{
	static const struct golden golden = {54, 0x0da66a8c38347f3d};
	struct pack pack;

	pack_init(&pack, room, sizeof(room));
	fileop_put_process(&pack, &(struct fileop_process){42, 1, 'S', 7, 1 << 20, 5000,
							   STR("user"), STR("sleep 1")});
	CHECK(!pack.failed && is_golden("process", 0, pack.len, &golden));
}

TEST(labels, "the bytes of an exec label are those of version 2, and version 1 is read")
{
	static const struct golden golden = {99, 0x31b4d1fb62cb7308};
	static const char first[] = "\1\3\2\4\0\0\0"
				    "\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"
				    "\x8\0\0\0\0\0\0\0\x9\0\0\0\0\0\0\0\xa\0\0\0\0\0\0\0"
				    "\xb\0\0\0\0\0\0\0"
				    "\0\1\0\0\0i\0\0\0\0\0\0\1\0\0\0c";
	struct exec_label out, label = {
				       .kind = EXEC_LABEL_SESSION,
				       .flags = EXEC_LABEL_HALF,
				       .file = 0x01020304,
				       .begun_us = 1,
				       .started_ms = 2,
				       .cap = 3,
				       .cpu_ms = 4,
				       .wall_ms = 5,
				       .meter_us = 6,
				       .oom_kills = 7,
				       .sender = 0x0a0b0c0d,
				       .id = STR("id"),
				       .session = STR("session"),
				       .command = STR("command"),
			       };
	size_t len = exec_label_encode(&label, room, sizeof(room));

	CHECK(is_golden("label", 0, len, &golden));
	CHECK(exec_label_decode((struct str){room, len}, &out) && out.sender == label.sender);
	CHECK(exec_label_set_sender(room, len, 9));
	CHECK(exec_label_decode((struct str){room, len}, &out) && out.sender == 9);
	CHECK(!exec_label_decode((struct str){room, len - 1}, &out));
	CHECK(exec_label_decode((struct str){first, sizeof(first)}, &out));
	CHECK(out.kind == EXEC_LABEL_TERM && out.sender == 0 && !out.session.at);
	CHECK(out.oom_kills == 11 && str_is(out.id, "i") && str_is(out.command, "c"));
}
