// Where somebody wants to go on: `after`, Last-Event-ID, `limit` and `kind`, a line each; a line of
// a single NUL is one that was not sent.
#include "types/event.h"

#include "fuzz.h"

static struct str line_of(struct str *rest)
{
	struct str line = {0};

	str_cut(rest, '\n', &line);
	return line.len == 1 && !line.at[0] ? (struct str){0} : line;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str rest = {(const char *)bytes, len};
	struct str after = line_of(&rest), last = line_of(&rest), limit = line_of(&rest);
	struct str kind = line_of(&rest), from = after.at ? after : last;
	struct event_place place = {.after = 7, .limit = 7};
	auto_err err = event_read_place(after, last, limit, &place);

	if (err) {
		MUST(!strcmp(err_reason(err), "bad_field"));
		MUST(place.after == 7 && place.limit == 7);
	} else {
		MUST(place.after <= INT64_MAX && place.limit >= 1 && place.limit <= EVENT_PAGE_MAX);
		MUST(place.from_now == (from.len == 0));
		MUST(!place.from_now || place.after == 0);
		for (size_t i = 0; i < from.len; i++)
			MUST(from.at[i] >= '0' && from.at[i] <= '9');
	}
	for (int i = 0; i < EVENT_KIND_COUNT; i++) {
		const char *word = event_word((enum event_kind)i);

		if (kind.len && event_matches(word, kind))
			MUST(!strncmp(word, kind.at, kind.len));
		MUST(event_matches(word, str_of(word)));
	}
	return 0;
}
