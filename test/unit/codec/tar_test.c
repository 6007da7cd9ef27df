#include "codec/tar.h"

#include "tap.h"

static char room[TAR_HEAD_MAX], name[TAR_NAME_MAX + 2];
static struct tar_in in;

static enum tar_step feed(const char *blocks, size_t len, struct tar_head *out)
{
	enum tar_step step = TAR_MORE;

	tar_begin(&in);
	for (size_t at = 0; at < len && step == TAR_MORE; at += TAR_BLOCK)
		step = tar_feed(&in, blocks + at, out);
	return step;
}

static bool survives(const struct tar_head *head)
{
	struct tar_head out;
	size_t len = tar_write(head, room, sizeof(room));

	return len && len % TAR_BLOCK == 0 && feed(room, len, &out) == TAR_ENTRY &&
	       str_eq(out.path, head->path) && str_eq(out.target, head->target) &&
	       out.size == head->size && out.mtime == head->mtime && out.mode == head->mode &&
	       out.type == head->type && out.uid == head->uid;
}

TEST(heads, "a head survives: long names, any bytes, large sizes, times before 1970")
{
	struct tar_head head = {.path = STR("a/b"), .target = STR(""), .mode = 0644, .size = 5};

	CHECK(survives(&head) && tar_write(&head, room, sizeof(room)) == TAR_BLOCK);
	head.size = 1ull << 40;
	head.mtime = -5;
	head.uid = 65534;
	CHECK(survives(&head));
	memset(name, '\xff', TAR_NAME_MAX);
	for (size_t len = 99; len <= TAR_NAME_MAX; len += len < 110 ? 1 : 997) {
		head.path = (struct str){name, len};
		CHECK(survives(&head));
	}
	head = (struct tar_head){.type = TAR_SYMLINK, .path = STR("l"), .mode = 0777};
	head.target = (struct str){name, 3000};
	CHECK(survives(&head));
	head.path = (struct str){name, TAR_NAME_MAX + 1};
	CHECK(tar_write(&head, room, sizeof(room)) == 0);
	CHECK(tar_padding(0) == 0 && tar_padding(1) == 511 && tar_padding(512) == 0);
}

TEST(bad, "a damaged, cut or odd archive is refused")
{
	struct tar_head out, head = {.path = STR("a"), .target = STR(""), .mode = 0644};
	static char zeroes[TAR_BLOCK];
	size_t len;

	CHECK(feed(zeroes, TAR_BLOCK, &out) == TAR_END);
	tar_write(&head, room, sizeof(room));
	room[0] ^= 1;
	CHECK(feed(room, TAR_BLOCK, &out) == TAR_BAD && in.why);
	memset(name, 'x', 300);
	head.path = (struct str){name, 300};
	len = tar_write(&head, room, sizeof(room));
	room[TAR_BLOCK] = '9';
	CHECK(feed(room, len, &out) == TAR_BAD);
}
