// The hidden verb `words`: prints names for shell completions, one per line. Ends silently after a
// short time limit, since the user is typing.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "lib/fields.h"

#define NAMES_SECONDS 2

static fallible print_word(const struct json *item, void *arg)
{
	for (const char *const *key = arg; *key; key++)
		if (*fields_text(item, *key))
			print_line("%s", fields_text(item, *key));
	return OK;
}

static int print_process(void *arg, const struct cove_process_info *info)
{
	(void)arg;
	print_line("%s", info->id);
	return 0;
}

// BOX:PATH as typed so far: lists the directory of its path.
struct names_files {
	struct str box, dir, prefix; // "web", "/etc/", "ho"
};

static int print_file(void *arg, const struct cove_entry *entry)
{
	const struct names_files *files = arg;

	if (strncmp(entry->name, files->prefix.at, files->prefix.len) == 0)
		print_line(STR_FMT ":" STR_FMT "%s%s", STR_ARG(files->box), STR_ARG(files->dir),
			   entry->name, strcmp(entry->type, "directory") == 0 ? "/" : "");
	return 0;
}

static fallible print_box_colon(const struct json *item, void *arg)
{
	const char *name = fields_text(item, "name");

	(void)arg;
	print_line("%s:", *name ? name : fields_text(item, "shortId"));
	return OK;
}

static fallible print_files(struct remote *remote, const char *word)
{
	const char *colon = strchr(word, ':'), *slash = strrchr(word, '/');
	struct names_files files;

	if (!colon)
		return collection_each(remote, BOXES_PATH, "", print_box_colon, NULL);
	files.box = (struct str){word, (size_t)(colon - word)};
	files.dir = (struct str){colon + 1, slash > colon ? (size_t)(slash - colon) : 0};
	files.prefix = str_of(files.dir.at + files.dir.len);

	auto_free char *key = mem_dup(files.box.at, files.box.len);
	auto_free char *dir = files.dir.len ? mem_dup(files.dir.at, files.dir.len) : mem_str(".");
	auto_cove_box box = cove_box_at(remote->cove, key);
	bool hidden = files.prefix.len && files.prefix.at[0] == '.';

	return remote_did(remote,
			  cove_list(box, dir, false, hidden, print_file, &files, &remote->error));
}

static void give_up(int signal)
{
	(void)signal;
	_exit(1);
}

// The shell waits while its user types.
static void limit_time(void)
{
	signal(SIGALRM, give_up);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = NAMES_SECONDS}}, NULL);
}

fallible names_print(struct call *call)
{
	static const char *const names[] = {"name", "shortId", NULL}, *const ids[] = {"id", NULL};
	static const struct {
		const char *word, *path;
		const char *const *keys;
	} rows[] = {
		{"boxes", BOXES_PATH, names},	   {"templates", TEMPLATES_PATH, names},
		{"sessions", SESSIONS_PATH, ids},  {"executions", EXECUTIONS_PATH, ids},
		{"secrets", "/v1/secrets", names}, {"budgets", "/v1/budgets", names},
	};
	auto_remote remote = {0};

	limit_time();
	TRY(remote_open(&remote, call));
	if (strcmp(call->words[0], "files") == 0)
		return print_files(&remote, call->word_count > 1 ? call->words[1] : "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(call->words[0], rows[i].word) == 0)
			return collection_each(&remote, rows[i].path, "", print_word,
					       (void *)(uintptr_t)rows[i].keys);
	auto_cove_box box = cove_box_at(remote.cove, call->word_count > 1 ? call->words[1] : "");

	return remote_did(&remote, cove_process_list(box, print_process, NULL, &remote.error));
}
