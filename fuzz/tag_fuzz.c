// What pid 1 tells of a conversation: what decodes encodes to the same bytes.
#include "model/tag.h"

#include "fuzz.h"
#include "model/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static uint8_t room[TALK_TAG_MAX];
	struct tag tag;

	if (len > sizeof(room) || !tag_decode((struct str){(const char *)bytes, len}, &tag))
		return 0;
	MUST(tag.kind < TAG_KINDS && tag.id.len <= TAG_ID_MAX && tag.session.len <= TAG_ID_MAX);
	MUST(tag.begun_us >= 0 && tag.started_ms >= 0);
	MUST(tag.id.at[tag.id.len] == 0 && tag.command.at[tag.command.len] == 0);
	// A long one may have been cut; an older version is written as the newest.
	if (tag_encode(&tag, room, sizeof(room)) == len && room[0] == bytes[0])
		MUST(memcmp(room, bytes, len) == 0 || (tag.flags & TAG_CUT));
	return 0;
}
