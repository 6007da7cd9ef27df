// What a driver wrote: every byte is told once, as text or in an event, whatever it is and however
// it comes.
#include "protocol/cell.h"

#include "fuzz.h"

static void on_bytes(void *arg, struct str bytes)
{
	*(size_t *)arg += bytes.len;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	size_t whole = 0, pieces = 0;
	struct cell at_once = {.text = on_bytes, .event = on_bytes, .arg = &whole};
	struct cell bit_by_bit = {.text = on_bytes, .event = on_bytes, .arg = &pieces};
	struct str text = {(const char *)bytes, len};

	cell_read(&at_once, text);
	cell_end(&at_once);
	for (; text.len; text = str_skip(text, 1))
		cell_read(&bit_by_bit, (struct str){text.at, 1});
	cell_end(&bit_by_bit);
	MUST(whole == pieces && whole <= len);
	cell_done(&at_once);
	cell_done(&bit_by_bit);
	return 0;
}
