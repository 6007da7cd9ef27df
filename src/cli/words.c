#include "cli/words.h"

#include "cli/boxes.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/template.h"

static fallible print_word(const struct json *item, void *arg)
{
	for (const char *const *key = arg; *key; key++)
		if (*boxes_text(item, *key))
			print_line("%s", boxes_text(item, *key));
	return OK;
}

static int print_process(void *arg, const struct cove_process_info *info)
{
	(void)arg;
	print_line("%s", info->id);
	return 0;
}

fallible words_print(struct call *call)
{
	static const char *const names[] = {"name", "shortId", NULL}, *const ids[] = {"id", NULL};
	static const struct {
		const char *word, *path;
		const char *const *keys;
	} rows[] = {
		{"boxes", BOXES_PATH, names},
		{"templates", TEMPLATES_PATH, names},
		{"sessions", SESSIONS_PATH, ids},
	};
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(call->words[0], rows[i].word) == 0)
			return boxes_each(&remote, rows[i].path, "", print_word,
					  (void *)(uintptr_t)rows[i].keys, NULL);
	auto_cove_box box = cove_box_at(remote.cove, call->word_count > 1 ? call->words[1] : "");

	return remote_did(&remote, cove_process_list(box, print_process, NULL, &remote.error));
}
