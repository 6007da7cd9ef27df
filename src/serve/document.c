// Writes docs/CONFIGURATION.md: options, timers and events, each from the table that the program
// itself uses. A test compares the file with this output.
#include "serve/document.h"

#include "serve/config.h"
#include "types/event.h"
#include "types/profile.h"
#include "types/timers.h"

static void or_none(struct buf *out, const char *text)
{
	if (text && *text)
		buf_fmt(out, " `%s` |", text);
	else
		buf_text(out, " |");
}

// A bar would end the table cell.
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

static void profiles(struct buf *out)
{
	auto_profiles all = {0};
	auto_err err = profiles_read(STR(""), &all);
	const char *name, *what;

	buf_text(out,
		 "\n## Profiles of executions\n\n"
		 "A section `[profile NAME]` of the file changes or adds a profile; an agent type "
		 "is the\n"
		 "profile of that name. Executions without one have the profile "
		 "`" PROFILE_DEFAULT "`.\n\n"
		 "    [profile LINT]\n"
		 "    memory_mb = 256\n"
		 "    max_memory_mb = 1024\n"
		 "    argv = [\"make\", \"lint\"]\n"
		 "    artifacts = report/**, *.log\n\n"
		 "| setting | what it is |\n|---|---|\n");
	for (size_t i = 0; profile_setting(i, &name, &what); i++)
		buf_fmt(out, "| `%s`, `max_%s` | %s |\n", name, name, what);
	buf_text(out,
		 "| `template` | what its sandbox starts from |\n"
		 "| `image` | instead: an image of a registry, pulled if need be |\n"
		 "| `argv` | its command, a JSON array, unless the request has one |\n"
		 "| `secrets`, `allow`, `artifacts` | names of secrets, allowed names, globs; "
		 "separated by commas |\n\n"
		 "`max_…` is what a request may ask for. Without it a request can only lower the "
		 "limit;\n"
		 "`" PROFILE_DEFAULT "` is bounded by the host alone.\n\n"
		 "| profile | memory | CPU time | wall time | requests | disk |\n"
		 "|---|---|---|---|---|---|\n");
	for (size_t i = 0; !err && i < all.count; i++) {
		const struct profile_limits *limits = &all.at[i].limits;

		buf_fmt(out, "| `%s` | %llu MiB | ", all.at[i].name,
			(unsigned long long)(limits->memory / LIMITS_MIB));
		span(out, (int64_t)limits->cpu_time_ms);
		buf_text(out, " | ");
		span(out, (int64_t)limits->wall_time_ms);
		buf_fmt(out, " | %llu | %llu MiB |\n", (unsigned long long)limits->network_requests,
			(unsigned long long)(limits->storage / LIMITS_MIB));
	}
}

void document_write(struct buf *out)
{
	buf_text(out,
		 "# Configuration\n\n"
		 "This page is the output of `cove serve --document`. A test compares the two.\n\n"
		 "## Settings of `cove serve`\n\n"
		 "A setting is a line `name = value` in " CONFIG_FILE
		 " (or the file of `--config`), an\n"
		 "environment variable, or a flag. A flag wins over a variable, a variable over "
		 "the file.\n"
		 "`cove serve --options` lists the settings.\n\n"
		 "`cove reload` (`systemctl reload cove`, or SIGHUP to `cove serve`) reads the "
		 "file\n"
		 "again. Settings that are marked live apply to objects made from then on. Other\n"
		 "settings wait for the next start. A file with an error is refused as a whole: "
		 "the\n"
		 "log has the reason, and no setting changes.\n\n");
	options(out);
	profiles(out);
	buf_text(out, "\n## Timers\n\n"
		      "All timers of sandboxes and agent sessions. The value of a setting replaces "
		      "the default.\n"
		      "`--dev --time-scale N` divides all other timers by N, for tests.\n\n");
	timers(out);
	buf_text(out,
		 "\n## Events\n\n"
		 "The kinds of events of `GET /v1/events` and `cove events`. Events are kept for\n"
		 "`event-retention`, at most 50000 of each tenant.\n\n");
	events(out);
}
