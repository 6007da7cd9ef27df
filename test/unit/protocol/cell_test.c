#include "protocol/cell.h"

#include <string.h>

#include "tap.h"

#define KEY "0123456789abcdef"
#define SIGN "\x1e" KEY

static void on_text(void *arg, struct str bytes)
{
	buf_str(arg, bytes);
}

static void on_event(void *arg, struct str bytes)
{
	buf_char(arg, '<');
	buf_str(arg, bytes);
	buf_char(arg, '>');
}

// The result of reading `text` after its key line, in pieces of `step` bytes: events in <>.
static const char *reading(struct str text, size_t step)
{
	static struct buf seen = BUF_INIT(64u << 20);
	struct cell cell = {.text = on_text, .event = on_event, .arg = &seen};

	buf_clear(&seen);
	buf_text(&seen, "");
	cell_read(&cell, STR(KEY "\n"));
	while (text.len) {
		size_t len = text.len < step ? text.len : step;

		cell_read(&cell, (struct str){text.at, len});
		text = str_skip(text, len);
	}
	cell_end(&cell);
	cell_done(&cell);
	return seen.at ? seen.at : "";
}

#define PIECE 4000 // with its header below PIPE_BUF, as in the drivers

// A whole event in frames, as a driver writes it.
static void put_event(struct buf *out, const char *key, struct str event)
{
	do {
		size_t len = event.len < PIECE ? event.len : PIECE;

		buf_fmt(out, "%c%.*s%c%04zx", 0x1e, CELL_KEY, key, len < event.len ? '+' : '.',
			len);
		buf_add(out, event.at, len);
		event = str_skip(event, len);
	} while (event.len);
}

TEST(frames, "text and events come in their order, however the bytes are cut")
{
	static const struct {
		const char *bytes, *seen;
	} cases[] = {
		{"", ""},
		{"plain\n", "plain\n"},
		{"a" SIGN ".0002{}b", "a<{}>b"},
		{SIGN "+0001{" SIGN ".0001}", "<{}>"},
		{SIGN "+0001{text" SIGN ".0001}", "text<{}>"},
		{SIGN ".0000", "<>"},
		{SIGN ".0001" SIGN, "<\x1e>" KEY},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t step = 1; step < 24; step++)
			CHECK_STR(reading(str_of(cases[i].bytes), step), cases[i].seen);
}

TEST(forged, "a frame with another key, or a malformed header, is text")
{
	static const char *const texts[] = {
		"\x1e",
		"\x1e\x1e\x1e",
		"\x1e"
		"0123456789abcdeX.0002{}",
		SIGN,
		SIGN "x0002{}",
		SIGN ".00g2{}",
		SIGN ".00A2{}",
		SIGN ".00",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (size_t step = 1; step < 24; step++)
			CHECK_STR(reading(str_of(texts[i]), step), texts[i]);
	CHECK_STR(reading(str_of("\x1e" SIGN ".0002{}"), 3), "\x1e<{}>");
}

TEST(long_event, "a long event is put in pieces and read as one")
{
	static char text[9001];
	auto_buf out = BUF_INIT(1 << 20);

	memset(text, 'x', sizeof(text) - 1);
	put_event(&out, KEY, str_of(text));
	CHECK(buf_ok(&out) && out.len == 9000 + 3 * 22);
	CHECK(strlen(reading(buf_view(&out), 100)) == 9002);
}

TEST(bounds, "an event past the bound is dropped, and the next one is read")
{
	auto_buf out = BUF_INIT(32u << 20);
	auto_buf event = BUF_INIT(20u << 20);

	while (event.len <= CELL_EVENT_MAX)
		buf_text(&event, "0123456789012345678901234567890123456789");
	put_event(&out, KEY, buf_view(&event));
	put_event(&out, KEY, STR("{}"));
	CHECK(buf_ok(&out));
	CHECK_STR(reading(buf_view(&out), 65536), "<{}>");
}

TEST(cut, "a tape that ends inside of a frame ends with what came before")
{
	CHECK_STR(reading(STR("a" SIGN ".0010{\"type"), 5), "a");
}
