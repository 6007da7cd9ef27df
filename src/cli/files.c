// cp, ls and cat. A file is a raw body, a tree a tar stream made and unpacked on the fly. The
// destination of cp follows docker's rule: into an existing directory under its own name, else
// under the given name. A source that ends in "/." means its content. Names are escaped; the bytes
// of cat are not.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/tar.h"
#include "cli/target.h"
#include "os/fd.h"

#define PIECE (256 * 1024)

struct copy {
	struct call *call;
	struct remote *remote;
	struct cove_box *box;
	struct cove_file *file; // in the sandbox
	char *room;
	struct progress progress;
	uint64_t moved, total;
};

static void copy_done(struct copy *copy)
{
	progress_end(&copy->progress);
	cove_file_free(copy->file);
	free(copy->room);
}

static fallible did(struct copy *copy, enum cove_kind kind)
{
	return remote_did(copy->remote, kind);
}

// The kind of a path in the sandbox.
enum there { THERE_NOTHING, THERE_DIR, THERE_FILE };
struct look {
	enum there what;
	unsigned mode;
};

static unsigned copy_mode_of(const char *text)
{
	unsigned mode = 0;

	for (size_t i = 0; i < 9 && text[i]; i++)
		mode |= text[i] != '-' ? 1u << (8 - i) : 0;
	return mode;
}

static int on_entry(void *arg, const struct cove_entry *entry)
{
	struct look *look = arg;

	look->what = strcmp(entry->type, "directory") == 0 ? THERE_DIR : THERE_FILE;
	look->mode = copy_mode_of(entry->mode);
	return 0;
}

static fallible copy_look_at(struct copy *copy, const char *path, struct look *out)
{
	struct cove_error *error = &copy->remote->error;
	enum cove_kind kind = cove_stat(copy->box, path, on_entry, out, error);

	// A missing sandbox is an error, a missing file is not.
	if (kind == COVE_NOT_FOUND && strcmp(error->code, "FILE_NOT_FOUND") == 0) {
		out->what = THERE_NOTHING;
		return OK;
	}
	return did(copy, kind);
}

// The last part of a path, without slashes behind it; "" for "/", "." and "..".
static struct str name_of(const char *path)
{
	struct str name = str_of(path);

	while (name.len > 1 && name.at[name.len - 1] == '/')
		name.len--;
	for (size_t i = name.len; i > 0; i--) {
		if (name.at[i - 1] == '/') {
			name = str_skip(name, i);
			break;
		}
	}
	return str_is(name, ".") || str_is(name, "..") ? STR("") : name;
}

static bool means_inside(const char *path)
{
	return strcmp(path, ".") == 0 || str_ends(str_of(path), "/.");
}

static char *beneath(const char *dir, struct str name)
{
	return mem_fmt("%s%s" STR_FMT, dir, str_ends(str_of(dir), "/") ? "" : "/", STR_ARG(name));
}

static void step(struct copy *copy, size_t len)
{
	copy->moved += len;
	progress_show(&copy->progress, copy->moved, copy->total);
}

// Copies a descriptor into the file to the end.
static fallible copy_send(struct copy *copy, int fd)
{
	size_t n = 1;

	while (n > 0) {
		TRY(stdio_read(fd, copy->room, PIECE, &n));
		if (n > 0)
			TRY(did(copy,
				cove_file_write(copy->file, copy->room, n, &copy->remote->error)));
		step(copy, n);
	}
	return did(copy, cove_file_commit(copy->file, &copy->remote->error));
}

static fallible fetch(struct copy *copy, int fd)
{
	size_t n = 1;

	while (n > 0) {
		TRY(did(copy,
			cove_file_read(copy->file, copy->room, PIECE, &n, &copy->remote->error)));
		TRY(stdio_write(fd, copy->room, n));
		step(copy, n);
	}
	return OK;
}

static fallible no_source(const char *path)
{
	return err_new(INVALID, "no_source", "cannot read '%s': %s", path, strerror(errno));
}

static fallible copy_send_file(struct copy *copy, const char *from, const struct stat *st,
			       const char *to)
{
	struct look look = {0};
	auto_free char *path = NULL;
	auto_fd fd = open(from, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return no_source(from);
	TRY(copy_look_at(copy, to, &look));
	if (look.what == THERE_NOTHING && str_ends(str_of(to), "/"))
		return err_hint(
			err_new(NOT_FOUND, "no_directory", "there is no directory '%s'", to),
			"leave the slash out to name a file");
	path = look.what == THERE_DIR ? beneath(to, name_of(from)) : mem_str(to);
	copy->total = (uint64_t)st->st_size;
	TRY(did(copy, cove_file_create(copy->box, path, st->st_mode & 0777, &copy->file,
				       &copy->remote->error)));
	return copy_send(copy, fd);
}

static fallible not_over(const char *path)
{
	return err_new(CONFLICT, "not_directory", "'%s' exists and is not a directory", path);
}

static fallible copy_send_dir(struct copy *copy, const char *from, const char *to)
{
	struct look look = {0};
	struct tar *tar = NULL;
	auto_free char *path = NULL;
	auto_fd fd = -1;

	TRY(copy_look_at(copy, to, &look));
	if (look.what == THERE_FILE)
		return not_over(to);
	path = look.what == THERE_DIR && !means_inside(from) && name_of(from).len
		       ? beneath(to, name_of(from))
		       : mem_str(to);
	TRY(did(copy, cove_tree_put(copy->box, path, &copy->file, &copy->remote->error)));
	TRY(tar_start(from, NULL, NULL, &tar, &fd));
	return tar_close(tar, &fd, copy_send(copy, fd));
}

static fallible copy_upload(struct copy *copy, const char *from, const char *to)
{
	struct stat st;

	if (strcmp(from, "-") == 0) {
		if (isatty(STDIN_FILENO))
			return err_hint(
				err_new(INVALID, "no_archive", "standard input is a terminal"),
				"tar c DIR | cove cp - BOX:PATH");
		TRY(did(copy, cove_tree_put(copy->box, to, &copy->file, &copy->remote->error)));
		return copy_send(copy, STDIN_FILENO);
	}
	if (stat(from, &st))
		return no_source(from);
	return S_ISDIR(st.st_mode) ? copy_send_dir(copy, from, to)
				   : copy_send_file(copy, from, &st, to);
}

// Written under a temporary name, and renamed when complete.
static fallible fetch_file(struct copy *copy, const char *from, unsigned mode, const char *to)
{
	struct stat st;
	bool is_there = stat(to, &st) == 0;
	auto_free char *path = is_there && S_ISDIR(st.st_mode) ? beneath(to, name_of(from))
							       : mem_str(to);
	auto_free char *part = mem_fmt("%s.part-%d", path, (int)getpid());
	struct err *err;
	auto_fd fd = -1;

	TRY(did(copy, cove_file_open(copy->box, from, 0, &copy->file, &copy->remote->error)));
	if (cove_file_size(copy->file) != UINT64_MAX)
		copy->total = cove_file_size(copy->file);
	// A device or pipe is written to, not replaced.
	if (is_there && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
		return fd < 0 ? no_source(path) : fetch(copy, fd);
	}
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_new(INVALID, "cannot_write", "cannot write '%s': %s", path,
			       strerror(errno));
	err = fetch(copy, fd);
	if (!err && (fchmod(fd, mode ? mode & 0777 : 0644) || rename(part, path)))
		err = err_new(INVALID, "cannot_write", "cannot write '%s': %s", path,
			      strerror(errno));
	if (err)
		unlink(part);
	return err;
}

static fallible read_tar(void *arg, const void **out_at, size_t *out_len)
{
	struct copy *copy = arg;

	TRY(did(copy,
		cove_file_read(copy->file, copy->room, PIECE, out_len, &copy->remote->error)));
	*out_at = copy->room;
	step(copy, *out_len);
	return OK;
}

static fallible fetch_dir(struct copy *copy, const char *from, const char *to)
{
	struct stat st;
	bool is_there = stat(to, &st) == 0;
	auto_free char *path = NULL;

	if (is_there && !S_ISDIR(st.st_mode))
		return not_over(to);
	path = is_there && !means_inside(from) && name_of(from).len ? beneath(to, name_of(from))
								    : mem_str(to);
	if (mkdir(path, 0755) && errno != EEXIST)
		return err_new(INVALID, "cannot_write", "cannot make '%s': %s", path,
			       strerror(errno));
	TRY(did(copy, cove_tree_get(copy->box, from, &copy->file, &copy->remote->error)));
	return untar(path, read_tar, copy);
}

static fallible download(struct copy *copy, const char *from, const char *to)
{
	struct look look = {0};

	if (strcmp(to, "-") == 0) {
		if (isatty(STDOUT_FILENO))
			return err_hint(
				err_new(INVALID, "no_archive", "standard output is a terminal"),
				"cove cp BOX:PATH - | tar t; 'cove cat' shows a file");
		TRY(did(copy, cove_tree_get(copy->box, from, &copy->file, &copy->remote->error)));
		return fetch(copy, STDOUT_FILENO);
	}
	TRY(copy_look_at(copy, from, &look));
	if (look.what == THERE_NOTHING)
		return err_new(NOT_FOUND, "no_file", "there is no file '%s' in the sandbox", from);
	return look.what == THERE_DIR ? fetch_dir(copy, from, to)
				      : fetch_file(copy, from, look.mode, to);
}

fallible files_cp(struct call *call)
{
	auto_target from = {0}, to = {0};
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	on_exit_call(copy_done) struct copy copy = {.call = call, .remote = &remote};

	target_read(call->words[0], &from);
	target_read(call->words[1], &to);
	if (!from.box == !to.box)
		return err_hint(err_new(INVALID, "bad_words", "one of the two must be BOX:PATH%s",
					from.box ? ", not both" : ""),
				from.box ? "cove cp A:DIR - | cove cp - B:DIR"
					 : "cove cp FILE BOX:PATH");
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	box = cove_box_at(remote.cove, from.box ? from.box : to.box);
	copy.box = box;
	copy.room = mem_new(PIECE);
	progress_start(&copy.progress, from.box ? "received" : "sent",
		       call_has(call, OPT_QUIET) || strcmp(to.path, "-") == 0);
	return status_end(call, from.box ? download(&copy, from.path, to.path)
					 : copy_upload(&copy, from.path, to.path));
}

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

static int listing_add(void *arg, const struct cove_entry *entry)
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
static fallible listing_read(struct call *call, struct remote *remote, struct cove_box *box,
			     const char *path, struct listing *list)
{
	enum cove_kind kind;

	list->relative = call_has(call, OPT_RECURSIVE);
	kind = cove_list(box, path, call_has(call, OPT_RECURSIVE), call_has(call, OPT_ALL),
			 listing_add, list, &remote->error);
	if (kind == COVE_INVALID && strcmp(remote->error.code, "NOT_DIRECTORY") == 0)
		kind = cove_stat(box, path, listing_add, list, &remote->error);
	TRY(remote_did(remote, kind));
	qsort(list->at, list->count, sizeof(*list->at), by_name);
	return OK;
}

fallible files_ls(struct call *call)
{
	auto_target target = {0};
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	on_exit_call(listing_done) struct listing list = {0};

	TRY(target_of_box("ls", call->words[0], &target));
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	box = cove_box_at(remote.cove, target.box);
	TRY(listing_read(call, &remote, box, target.path, &list));
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

static fallible cat_file(struct remote *remote, const struct target *target)
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

fallible files_cat(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	for (int i = 0; i < call->word_count; i++) {
		auto_target target = {0};

		TRY(target_of_box("cat", call->words[i], &target));
		TRY(status_end(call, cat_file(&remote, &target)));
	}
	return OK;
}
