#include "inbox/sieve.h"

static struct str sieve_type_of(struct str line)
{
	static const char mark[] = "data: {\"type\":\"";
	struct str type = {0};

	if (!str_starts(line, mark))
		return type;
	line = str_skip(line, sizeof(mark) - 1);
	str_cut(&line, '"', &type);
	return type;
}

// What the line that begins so is, and what becomes of it.
static void decide(struct sieve *sieve, struct buf *out)
{
	struct str start = {sieve->start, sieve->len}, type = sieve_type_of(start);

	sieve->decided = true;
	if (str_starts(start, "id: ") && str_ends(start, "\n")) {
		memcpy(sieve->id, sieve->start, sieve->len);
		sieve->id_len = sieve->len;
		sieve->dropped = true;
		return;
	}
	if (type.at && sieve->drop && str_is(type, sieve->drop)) {
		sieve->dropped = sieve->gap = true;
	} else if (sieve->gap && str_is(start, "\n")) {
		sieve->dropped = true; // the empty line behind the one that was dropped
		sieve->gap = false;
	}
	if (!sieve->dropped) {
		buf_add(out, sieve->id, sieve->id_len);
		if (sieve->names && type.at)
			buf_fmt(out, "event: " STR_FMT "\n", STR_ARG(type));
		buf_add(out, sieve->start, sieve->len);
	}
	sieve->id_len = 0;
}

void sieve_add(struct sieve *sieve, struct str bytes, struct buf *out)
{
	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) + 1 : bytes.len;

		if (!sieve->decided) {
			size_t room = SIEVE_START - sieve->len;

			len = len < room ? len : room;
			end = len && bytes.at[len - 1] == '\n' ? end : NULL;
			memcpy(sieve->start + sieve->len, bytes.at, len);
			sieve->len += len;
			if (end || sieve->len == SIEVE_START)
				decide(sieve, out);
		} else if (!sieve->dropped) {
			buf_add(out, bytes.at, len);
		}
		bytes = str_skip(bytes, len);
		if (end) {
			sieve->len = 0;
			sieve->decided = sieve->dropped = false;
		}
	}
}

void sieve_end(struct sieve *sieve, struct buf *out)
{
	if (sieve->len && !sieve->decided)
		decide(sieve, out);
}
