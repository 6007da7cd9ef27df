#include "serve/document.h"

#include "model/event.h"
#include "model/timers.h"
#include "serve/config.h"

static void or_none(struct buf *out, const char *text)
{
	if (text && *text)
		buf_fmt(out, " `%s` |", text);
	else
		buf_text(out, " |");
}

// A bar would end the cell.
static void plain(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_fmt(out, *text == '|' ? "\\%c" : "%c", *text);
}

static void options(struct buf *out)
{
	struct config_option row;

	buf_text(out, "| flag | variable | value | default | live | what it is |\n"
		      "|---|---|---|---|---|---|\n");
	for (size_t i = 0; config_option(i, &row); i++) {
		buf_fmt(out, "| `--%s` |", row.name);
		or_none(out, row.env);
		buf_char(out, ' ');
		plain(out, row.arg);
		buf_text(out, " |");
		or_none(out, row.otherwise);
		buf_text(out, row.live ? " yes | " : " | ");
		plain(out, row.help);
		buf_text(out, " |\n");
	}
}

static void span(struct buf *out, int64_t ms)
{
	static const struct {
		int64_t ms;
		const char *word;
	} units[] = {
		{TIMER_DAY, "d"}, {TIMER_HOUR, "h"}, {TIMER_MINUTE, "min"}, {TIMER_SECOND, "s"}};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (ms % units[i].ms)
			continue;
		buf_fmt(out, "%lld %s", (long long)(ms / units[i].ms), units[i].word);
		return;
	}
	buf_fmt(out, "%lld ms", (long long)ms);
}

static void timers(struct buf *out)
{
	buf_text(out, "| timer | default | when it is over |\n|---|---|---|\n");
	for (int i = 0; i < TIMER_COUNT; i++) {
		const struct timer_row *row = timer_row((enum timer_name)i);

		buf_fmt(out, "| %s | ", row->name);
		span(out, row->otherwise_ms);
		buf_fmt(out, " | %s |\n", row->what);
	}
}

static void events(struct buf *out)
{
	buf_text(out, "| kind | what has happened |\n|---|---|\n");
#define X(name, word, what) buf_text(out, "| `" word "` | " what " |\n");
	EVENT_KINDS(X)
#undef X
}

void document_write(struct buf *out)
{
	buf_text(
		out,
		"# Configuration\n\n"
		"Written by `cove serve --document`; a test compares the two.\n\n"
		"## Settings of `cove serve`\n\n"
		"A setting is a line `name = value` in " CONFIG_FILE
		" (or the file of `--config`), a variable of the environment, or a\n"
		"flag; the later of these three wins. `cove serve --options` lists them.\n\n"
		"After a change of the file `cove reload` (`systemctl reload cove`, or SIGHUP to "
		"`cove serve`) puts those\nmarked live into effect, for what is made from then on; "
		"the others wait for the next start. A file that\nis not right is refused whole, "
		"with "
		"its reason in the log, and everything stays as it was.\n\n");
	options(out);
	buf_text(out,
		 "\n## Timers\n\n"
		 "Every timer of the lifecycle, in one table. Those that a setting names are the "
		 "operator's;\n`--dev --time-scale N` divides all others by N, for tests.\n\n");
	timers(out);
	buf_text(out,
		 "\n## Events\n\n"
		 "What `GET /v1/events` and `cove events` tell. Kept for `event-retention`, and at "
		 "most 50000 of each tenant.\n\n");
	events(out);
}
