// The manifest in a file of this host, and a copy of a worktree in a directory: listed by the same
// rules as the worktree itself, read beneath an open directory.
#include "cli/provider_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/fd.h"
#include "os/path.h"
#include "sync/scan.h"

#define STATE_MAX (64u << 20)
#define PIECE (256 * 1024)

static fallible provider_copy_make(const char *path)
{
	auto_free char *part = mem_str(path);

	for (char *at = part + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = 0;
		(void)!mkdir(part, 0700);
		*at = '/';
	}
	if (mkdir(path, 0700) && errno != EEXIST)
		return err_new(INVALID, "no_store", "cannot make '%s': %s", path, strerror(errno));
	return OK;
}

fallible provider_copy_base(const char *provider, char **out)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	auto_free char *path = xdg && *xdg == '/' ? mem_fmt("%s/cove/%s", xdg, provider)
						  : mem_fmt("%s/.local/state/cove/%s",
							    home ? home : "", provider);

	if (*path != '/')
		return err_new(INVALID, "no_store", "HOME names no directory");
	TRY(provider_copy_make(path));
	*out = take_ptr(path);
	return OK;
}

fallible provider_copy_store(struct sync_box *box, const char *name)
{
	auto_free char *base = NULL;

	TRY(provider_copy_base(box->provider->name, &base));
	free(box->store);
	box->store = mem_fmt("%s/%s", base, name);
	return provider_copy_make(box->store);
}

char *provider_copy_line(const char *store, const char *file)
{
	auto_free char *path = mem_fmt("%s/%s", store, file);
	char room[1024];

	if (fd_get(AT_FDCWD, path, room, sizeof(room)) <= 0)
		return NULL;
	room[strcspn(room, "\n")] = 0;
	return mem_str(room);
}

// A manifest of another sandbox is none: that one is gone.
fallible provider_copy_state(struct sync_box *box, bool begins, struct sync_state *out, bool *found)
{
	auto_free char *owner = provider_copy_line(box->store, "sandbox");
	auto_fd dir = open(box->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_buf text = BUF_INIT(STATE_MAX);

	(void)begins;
	*found = false;
	if (dir < 0)
		return err_new(INVALID, "no_store", "cannot open '%s': %s", box->store,
			       strerror(errno));
	if (!owner || strcmp(owner, box->id) != 0 || faccessat(dir, "manifest", F_OK, 0))
		return OK;
	TRY(path_read(dir, "manifest", &text), "read the manifest");
	TRY(sync_state_read(buf_view(&text), out));
	*found = true;
	return OK;
}

fallible provider_copy_keep(struct sync_box *box, const struct sync_state *state, bool synced)
{
	auto_fd dir = open(box->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_buf text = BUF_INIT(STATE_MAX);

	(void)synced;
	if (dir < 0)
		return err_new(INVALID, "no_store", "cannot open '%s': %s", box->store,
			       strerror(errno));
	sync_state_write(state, &text);
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "sync_too_many_files", "the manifest exceeds 64 MiB");
	TRY(path_write_sync(dir, "sandbox", 0600, str_of(box->id)), "keep the manifest");
	TRY(path_write_sync(dir, "manifest", 0600, buf_view(&text)), "keep the manifest");
	return OK;
}

// ----------------------------------------------------------------------------------- the copy

static fallible provider_copy_parent(int root, const char *path, int *out, const char **out_name)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = slash ? mem_dup(path, (size_t)(slash - path)) : mem_str(".");

	*out_name = slash ? slash + 1 : path;
	return path_open(root, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, out);
}

static bool provider_copy_is_placed(int root, const char *path)
{
	char target[sizeof(SYNC_PLACED)] = "";
	const char *name = path;
	auto_fd dir = -1;
	auto_err err = provider_copy_parent(root, path, &dir, &name);

	return !err && readlinkat(dir, name, target, sizeof(target) - 1) == sizeof(target) - 1 &&
	       !strcmp(target, SYNC_PLACED);
}

static void provider_copy_on_scan(void *arg, enum scan_note note, const char *path)
{
	const struct sync_box *box = arg;

	if (note == SCAN_REPOSITORY)
		box->note(box->arg, "left_out", path);
}

// A file of the last sync that is ignored now.
static fallible provider_copy_look(struct sync_box *box, const char *path, struct file_list *out)
{
	struct listed_file file = {.path = NULL};
	struct listed_file *added;
	const char *name = path;
	bool found = false;
	auto_fd dir = -1;
	auto_err absent = provider_copy_parent(box->copy, path, &dir, &name);

	if (!absent)
		TRY(scan_file(dir, name, path, box->file_max, &file, &found));
	if (!found)
		return OK;
	added = file_list_add(out, str_of(path));
	file.path = added->path;
	file.content = FILE_LIST_NO_CONTENT;
	*added = file;
	return OK;
}

static void provider_copy_drop(struct file_list *list, size_t at)
{
	free(list->at[at].path);
	memmove(&list->at[at], &list->at[at + 1], (list->count - at - 1) * sizeof(*list->at));
	list->count--;
}

fallible provider_copy_read(struct sync_box *box, const struct file_list *base,
			    struct file_list *out)
{
	struct scan_options options = {box->file_max, box->count_max, provider_copy_on_scan, box,
				       NULL};
	size_t scanned;

	TRY(scan_worktree(box->copy, &options, out));
	for (size_t i = out->count; i-- > 0;)
		if (out->at[i].is_link && provider_copy_is_placed(box->copy, out->at[i].path))
			provider_copy_drop(out, i);
	scanned = out->count;
	for (size_t i = 0; i < base->count; i++) {
		struct file_list known = {.at = out->at, .count = scanned};

		if (!file_list_find(&known, base->at[i].path))
			TRY(provider_copy_look(box, base->at[i].path, out));
	}
	file_list_sort(out);
	return OK;
}

static fallible provider_copy_take(struct sync_box *box, int root, const struct listed_file *file)
{
	auto_free char *room = mem_new(PIECE);
	char hash[SHA256_HEX + 1];
	const char *name = file->path;
	auto_fd dir = -1;
	auto_fd fd = -1;
	struct sha256 sum;
	ssize_t got = 0;
	uint64_t size = 0;

	TRY(provider_copy_parent(root, file->path, &dir, &name));
	sha256_begin(&sum);
	if (!file->is_link)
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	do {
		got = file->is_link ? readlinkat(dir, name, room, PATH_MAX) : read(fd, room, PIECE);
		if (got < 0)
			break;
		sha256_add(&sum, room, (size_t)got);
		if (pwrite(box->spool, room, (size_t)got, (off_t)box->spooled) != got)
			return err_new(NO_SPACE, "no_spool", "cannot write a temporary file: %s",
				       strerror(errno));
		box->spooled += (uint64_t)got;
		size += (uint64_t)got;
	} while (got > 0 && !file->is_link && size <= file->size);
	sha256_end(&sum, hash);
	if (got >= 0 && size == file->size && !strcmp(hash, file->hash))
		return OK;
	return err_hint(
		err_new(CONFLICT, "sync_conflict", "'%s' changed during the sync", file->path),
		"nothing was changed; try again");
}

fallible provider_copy_spool(struct sync_box *box, int root, const struct plan *plan)
{
	for (size_t i = 0; i < plan->change_count; i++) {
		struct listed_file *to = (struct listed_file *)plan->changes[i].to;
		uint64_t start = box->spooled;

		if (!to || to->content != FILE_LIST_NO_CONTENT)
			continue;
		TRY(provider_copy_take(box, root, to));
		to->content = start;
	}
	return OK;
}

fallible provider_copy_fetch(struct sync_box *box, const struct plan *plan)
{
	return provider_copy_spool(box, box->copy, plan);
}
