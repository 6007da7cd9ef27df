// A script of readings: the input is both the list of calls and the bytes that they read. Whatever
// a reader takes, a writer puts down again as the same bytes.
#include "codec/pack.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	size_t calls = len ? bytes[0] % 16 : 0;
	uint8_t room[4096];
	struct unpack in;
	struct pack out;

	if (len < calls + 1 || len > sizeof(room))
		return 0;
	unpack_init(&in, bytes + 1 + calls, len - 1 - calls);
	pack_init(&out, room, sizeof(room));
	for (size_t i = 0; i < calls && !in.failed; i++) {
		uint64_t value = 0;
		struct str text = {0};

		switch (bytes[1 + i] % 5) {
		case 0:
			value = unpack_u8(&in);
			pack_u8(&out, (uint8_t)value);
			break;
		case 1:
			value = unpack_u16(&in);
			pack_u16(&out, (uint16_t)value);
			break;
		case 2:
			value = unpack_u32(&in);
			pack_u32(&out, (uint32_t)value);
			break;
		case 3:
			value = unpack_u64(&in);
			pack_u64(&out, value);
			break;
		default:
			text = unpack_text(&in, bytes[1 + i]);
			MUST(text.at && strlen(text.at) == text.len && text.len <= bytes[1 + i]);
			pack_text(&out, text);
		}
		MUST(!in.failed || (value == 0 && text.len == 0));
	}
	if (!in.failed)
		MUST(!out.failed && out.len + in.left == len - 1 - calls &&
		     memcmp(room, bytes + 1 + calls, out.len) == 0);
	return 0;
}
