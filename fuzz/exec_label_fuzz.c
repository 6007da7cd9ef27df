// What pid 1 tells of a conversation: what decodes encodes to the same bytes.
#include "protocol/exec_label.h"

#include "fuzz.h"
#include "protocol/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static uint8_t room[TALK_LABEL_MAX];
	struct exec_label tag;

	if (len > sizeof(room) || !exec_label_decode((struct str){(const char *)bytes, len}, &tag))
		return 0;
	MUST(tag.kind < EXEC_LABEL_KINDS && tag.id.len <= EXEC_LABEL_ID_MAX &&
	     tag.session.len <= EXEC_LABEL_ID_MAX);
	MUST(tag.begun_us >= 0 && tag.started_ms >= 0);
	MUST(tag.id.at[tag.id.len] == 0 && tag.command.at[tag.command.len] == 0);
	// A long one may have been cut; an older version is written as the newest.
	if (exec_label_encode(&tag, room, sizeof(room)) == len && room[0] == bytes[0])
		MUST(memcmp(room, bytes, len) == 0 || (tag.flags & EXEC_LABEL_CUT));
	return 0;
}
