// The verbs ls and cat: files of a sandbox, listed in ls format, and streamed to stdout. Names are
// escaped; the bytes of cat are not.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/target.h"
#include "cli/verbs.h"

#define PIECE (256 * 1024)

struct entry {
	char *name, *type, *mode, *modified, *target;
	uint64_t size;
};

struct listing {
	struct entry *at;
	size_t count;
	bool relative; // names with their directories
};

static void listing_done(struct listing *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->at[i].name);
		free(list->at[i].type);
		free(list->at[i].mode);
		free(list->at[i].modified);
		free(list->at[i].target);
	}
	free(list->at);
}

static int show_note(void *arg, const struct cove_entry *entry)
{
	struct listing *list = arg;
	const char *name = list->relative && *entry->relative ? entry->relative : entry->name;

	list->at = mem_grow(list->at, list->count + 1, sizeof(*list->at));
	list->at[list->count++] = (struct entry){
		.name = mem_str(name),
		.type = mem_str(entry->type),
		.mode = mem_str(entry->mode),
		.modified = mem_str(entry->modified_at),
		.target = mem_str(entry->target),
		.size = entry->size,
	};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static char letter_of(const char *type)
{
	static const struct {
		const char *type;
		char letter;
	} letters[] = {{"directory", 'd'}, {"symlink", 'l'}, {"file", '-'}};

	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++)
		if (strcmp(type, letters[i].type) == 0)
			return letters[i].letter;
	return '?';
}

static void print_long(const struct listing *list)
{
	int width = 1;

	for (size_t i = 0; i < list->count; i++) {
		int len = snprintf(NULL, 0, "%llu", (unsigned long long)list->at[i].size);

		width = len > width ? len : width;
	}
	for (size_t i = 0; i < list->count; i++) {
		const struct entry *e = &list->at[i];

		print_line("%c%s %*llu %.16s %s%s%s", letter_of(e->type), e->mode, width,
			   (unsigned long long)e->size, e->modified, e->name,
			   *e->target ? " -> " : "", e->target);
	}
}

static void print_entries(const struct listing *list)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '[');
	for (size_t i = 0; i < list->count; i++) {
		const struct entry *e = &list->at[i];

		json_begin(&out, '{');
		json_put_text(&out, "name", e->name);
		json_put_text(&out, "type", e->type);
		json_put_text(&out, "mode", e->mode);
		json_put_int(&out, "size", (int64_t)e->size);
		json_put_text(&out, "modifiedAt", e->modified);
		if (*e->target)
			json_put_text(&out, "target", e->target);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	print_json(buf_view(&text));
}

// The entries of a directory; of any other file itself.
static fallible show_gather(struct call *call, struct remote *remote, struct cove_box *box,
			    const char *path, struct listing *list)
{
	enum cove_kind kind;

	list->relative = call_has(call, OPT_RECURSIVE);
	kind = cove_list(box, path, call_has(call, OPT_RECURSIVE), call_has(call, OPT_ALL),
			 show_note, list, &remote->error);
	if (kind == COVE_INVALID && strcmp(remote->error.code, "NOT_DIRECTORY") == 0)
		kind = cove_stat(box, path, show_note, list, &remote->error);
	TRY(remote_did(remote, kind));
	qsort(list->at, list->count, sizeof(*list->at), by_name);
	return OK;
}

fallible show_ls(struct call *call)
{
	auto_target target = {0};
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	on_exit_call(listing_done) struct listing list = {0};

	TRY(target_of_box("ls", call->words[0], &target));
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	box = cove_box_at(remote.cove, target.box);
	TRY(show_gather(call, &remote, box, target.path, &list));
	if (call_has(call, OPT_JSON)) {
		print_entries(&list);
		return OK;
	}
	if (call_has(call, OPT_LONG)) {
		print_long(&list);
		return OK;
	}
	for (size_t i = 0; i < list.count; i++)
		print_line("%s", list.at[i].name);
	return OK;
}

static void file_drop(struct cove_file **file)
{
	cove_file_free(*file);
}

static fallible show_copy(struct remote *remote, const struct target *target)
{
	auto_cove_box box = cove_box_at(remote->cove, target->box);
	on_exit_call(file_drop) struct cove_file *file = NULL;
	auto_free char *room = mem_new(PIECE);
	size_t n = 1;

	TRY(remote_did(remote, cove_file_open(box, target->path, 0, &file, &remote->error)));
	while (n > 0) {
		TRY(remote_did(remote, cove_file_read(file, room, PIECE, &n, &remote->error)));
		TRY(stdio_write(STDOUT_FILENO, room, n));
	}
	return OK;
}

fallible show_cat(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	for (int i = 0; i < call->word_count; i++) {
		auto_target target = {0};

		TRY(target_of_box("cat", call->words[i], &target));
		TRY(status_end(call, show_copy(&remote, &target)));
	}
	return OK;
}
