// cp. A file is a raw body, a tree a tar stream made and unpacked on the fly. The destination
// follows docker's rule: into an existing directory under its own name, else under the given name.
// A source that ends in "/." means its content.
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
#include "cli/untar.h"
#include "cli/verbs.h"
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

static unsigned cli_copy_mode_of(const char *text)
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
	look->mode = cli_copy_mode_of(entry->mode);
	return 0;
}

static fallible cli_copy_look_at(struct copy *copy, const char *path, struct look *out)
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
static fallible cli_copy_send(struct copy *copy, int fd)
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

static fallible cli_copy_send_file(struct copy *copy, const char *from, const struct stat *st,
				   const char *to)
{
	struct look look = {0};
	auto_free char *path = NULL;
	auto_fd fd = open(from, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return no_source(from);
	TRY(cli_copy_look_at(copy, to, &look));
	if (look.what == THERE_NOTHING && str_ends(str_of(to), "/"))
		return err_hint(
			err_new(NOT_FOUND, "no_directory", "there is no directory '%s'", to),
			"leave the slash out to name a file");
	path = look.what == THERE_DIR ? beneath(to, name_of(from)) : mem_str(to);
	copy->total = (uint64_t)st->st_size;
	TRY(did(copy, cove_file_create(copy->box, path, st->st_mode & 0777, &copy->file,
				       &copy->remote->error)));
	return cli_copy_send(copy, fd);
}

static fallible not_over(const char *path)
{
	return err_new(CONFLICT, "not_directory", "'%s' exists and is not a directory", path);
}

static fallible cli_copy_send_dir(struct copy *copy, const char *from, const char *to)
{
	struct look look = {0};
	struct tar *tar = NULL;
	auto_free char *path = NULL;
	auto_fd fd = -1;
	struct err *err, *packed;

	TRY(cli_copy_look_at(copy, to, &look));
	if (look.what == THERE_FILE)
		return not_over(to);
	path = look.what == THERE_DIR && !means_inside(from) && name_of(from).len
		       ? beneath(to, name_of(from))
		       : mem_str(to);
	TRY(did(copy, cove_tree_put(copy->box, path, &copy->file, &copy->remote->error)));
	TRY(tar_start(from, &tar, &fd));
	err = cli_copy_send(copy, fd);
	close(take_fd(&fd)); // ends a tar thread that is not read any more
	packed = tar_end(tar);
	if (packed && err_kind(packed) != ERR_CANCELLED) { // the cause is on our side
		err_free(err);
		return packed;
	}
	err_free(packed);
	return err;
}

static fallible cli_copy_upload(struct copy *copy, const char *from, const char *to)
{
	struct stat st;

	if (strcmp(from, "-") == 0) {
		if (isatty(STDIN_FILENO))
			return err_hint(
				err_new(INVALID, "no_archive", "standard input is a terminal"),
				"tar c DIR | cove cp - BOX:PATH");
		TRY(did(copy, cove_tree_put(copy->box, to, &copy->file, &copy->remote->error)));
		return cli_copy_send(copy, STDIN_FILENO);
	}
	if (stat(from, &st))
		return no_source(from);
	return S_ISDIR(st.st_mode) ? cli_copy_send_dir(copy, from, to)
				   : cli_copy_send_file(copy, from, &st, to);
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
	TRY(cli_copy_look_at(copy, from, &look));
	if (look.what == THERE_NOTHING)
		return err_new(NOT_FOUND, "no_file", "there is no file '%s' in the sandbox", from);
	return look.what == THERE_DIR ? fetch_dir(copy, from, to)
				      : fetch_file(copy, from, look.mode, to);
}

fallible copy_cp(struct call *call)
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
					 : cli_copy_upload(&copy, from.path, to.path));
}
