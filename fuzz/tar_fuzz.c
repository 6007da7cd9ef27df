// Archives of strangers, block by block: no head claims what its reader cannot hold, and a head
// that is written again reads the same.
#include "codec/tar.h"

#include "fuzz.h"

static struct tar_in in, again;
static uint8_t room[TAR_HEAD_MAX], block[TAR_BLOCK];

static void check(const struct tar_head *head)
{
	struct tar_head copy;
	size_t len;

	MUST(strlen(head->path.at) == head->path.len && head->path.len <= TAR_NAME_MAX);
	MUST(strlen(head->target.at) == head->target.len && head->target.len <= TAR_NAME_MAX);
	MUST(head->size <= INT64_MAX && head->mode <= 07777);
	if (head->type == TAR_OTHER || head->path.len == 0)
		return;
	len = tar_write(head, room, sizeof(room));
	MUST(len > 0 && len % TAR_BLOCK == 0);
	tar_begin(&again);
	for (size_t at = 0; at < len; at += TAR_BLOCK)
		if (tar_feed(&again, room + at, &copy) == TAR_ENTRY)
			MUST(str_eq(copy.path, head->path) && str_eq(copy.target, head->target));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	uint64_t skip = 0;

	tar_begin(&in);
	for (size_t at = 0; at < len; at += TAR_BLOCK) {
		struct tar_head head;
		size_t n = len - at < TAR_BLOCK ? len - at : TAR_BLOCK;
		enum tar_step step;

		if (skip > 0) {
			skip--;
			continue;
		}
		memset(block, 0, sizeof(block));
		memcpy(block, bytes + at, n);
		step = tar_feed(&in, block, &head);
		if (step == TAR_END || step == TAR_BAD)
			break;
		if (step == TAR_ENTRY) {
			check(&head);
			skip = head.size / TAR_BLOCK + (head.size % TAR_BLOCK != 0);
		}
	}
	return 0;
}
