// Moves manifests and files between a worktree and a sandbox over the file routes. What comes from
// the sandbox is untrusted: names, types, sizes and duplicates of the archive are checked, and a
// name is only ever a key here.
#include "cli/sync_box.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/tar.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "os/fd.h"
#include "os/path.h"

#define PIECE (256 * 1024)
#define STATE_MAX (64u << 20)
#define BODY_MAX (1 << 20)
#define DIRECTORIES_AT_ONCE 256
#define NO_GIT 77
#define GETS_MAX 64	// files that are read one by one; if there are more, the whole copy is
#define RECORD_MAX 8192 // of a list of the copy

void sync_box_done(struct sync_box *sync)
{
	cove_box_free(take_ptr(sync->box));
	free(take_ptr(sync->id));
	free(take_ptr(sync->home));
	free(take_ptr(sync->store));
	free(take_ptr(sync->tools));
	free(take_ptr(sync->user_home));
	fd_drop(&sync->copy);
}

void sync_ids_add(struct sync_ids *ids, const char *id, const char *name)
{
	ids->at = mem_grow(ids->at, ids->count + 1, sizeof(*ids->at));
	ids->names = mem_grow(ids->names, ids->count + 1, sizeof(*ids->names));
	ids->at[ids->count] = mem_str(id);
	ids->names[ids->count++] = mem_str(name);
}

void sync_ids_done(struct sync_ids *ids)
{
	for (size_t i = 0; i < ids->count; i++) {
		free(ids->at[i]);
		free(ids->names[i]);
	}
	free(ids->at);
	free(ids->names);
	*ids = (struct sync_ids){0};
}

static void sync_request_done(struct cove_request **request)
{
	cove_request_free(*request);
}
#define auto_request on_exit_call(sync_request_done) struct cove_request *

static fallible sync_did(const struct sync_box *sync, enum cove_kind kind)
{
	return remote_did(sync->remote, kind);
}

static fallible sync_open(const struct sync_box *sync, const char *method, const char *rest,
			  const char *type, struct cove_request **out)
{
	auto_free char *path = remote_path("/v1/sandboxes", cove_box_id(sync->box), rest);

	return sync_did(sync, cove_request_open(sync->remote->cove, method, path, type, out,
						&sync->remote->error));
}

static fallible sync_read_all(const struct sync_box *sync, struct cove_request *request,
			      struct buf *out)
{
	size_t got = 1;

	while (got > 0) {
		char *room = buf_space(out, PIECE);

		if (!room)
			return err_new(BAD_PEER, "too_much", "the answer is too large");
		TRY(sync_did(sync,
			     cove_request_read(request, room, PIECE, &got, &sync->remote->error)));
		buf_grew(out, got);
	}
	return OK;
}

// ------------------------------------------------------------------------------------- state

fallible sync_box_state(struct sync_box *sync, bool begins, struct sync_state *out, bool *out_found)
{
	auto_request request = NULL;
	auto_buf text = BUF_INIT(STATE_MAX + PIECE);
	struct err *err = sync_open(sync, "GET", begins ? "/sync?begin=true" : "/sync", NULL,
				    &request);

	*out_found = false;
	if (err && !strcmp(err_reason(err), "no_manifest")) {
		err_free(err);
		return OK;
	}
	TRY(err);
	TRY(sync_read_all(sync, request, &text));
	TRY(sync_state_read(buf_view(&text), out));
	*out_found = true;
	return OK;
}

fallible sync_box_keep(struct sync_box *sync, const struct sync_state *state, bool synced)
{
	auto_request request = NULL;
	auto_buf text = BUF_INIT(STATE_MAX), reply = BUF_INIT(BODY_MAX + PIECE);

	sync_state_write(state, &text);
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "sync_too_many_files", "the manifest exceeds 64 MiB");
	TRY(sync_open(sync, "PUT", synced ? "/sync?synced=true" : "/sync",
		      "application/octet-stream", &request));
	for (struct str rest = buf_view(&text); rest.len;) {
		size_t len = rest.len < PIECE ? rest.len : PIECE;

		TRY(sync_did(sync,
			     cove_request_write(request, rest.at, len, &sync->remote->error)));
		rest = str_skip(rest, len);
	}
	TRY(sync_did(sync, cove_request_finish(request, &sync->remote->error)));
	return sync_read_all(sync, request, &reply);
}

// ----------------------------------------------------------------------------------- archives

struct sync_link {
	char *path, *target;
};

struct sync_archive {
	struct sync_box *sync;
	struct cove_request *request; // NULL: of `from`
	int from;		      // a file of this host
	char *room;
	size_t at, len;
	struct tar_in tar;
	const struct file_list *base;
	struct file_list *out;
	struct sync_link *links; // hard links
	size_t link_count;
};

static void sync_archive_free(struct sync_archive **out)
{
	struct sync_archive *archive = *out;

	for (size_t i = 0; i < archive->link_count; i++) {
		free(archive->links[i].path);
		free(archive->links[i].target);
	}
	free(archive->links);
	free(archive->room);
	cove_request_free(archive->request);
	free(archive);
}

static fallible sync_bad_archive(const char *why)
{
	return err_new(BAD_PEER, "bad_archive", "the sandbox sent an invalid archive: %s", why);
}

static fallible sync_receive(struct sync_archive *archive, size_t *out)
{
	ssize_t got;

	if (archive->request)
		return sync_did(archive->sync,
				cove_request_read(archive->request, archive->room, PIECE, out,
						  &archive->sync->remote->error));
	got = read(archive->from, archive->room, PIECE);
	if (got < 0)
		return err_sys(errno, "read an archive");
	*out = (size_t)got;
	return OK;
}

// Some bytes of the stream, at most `max`.
static fallible sync_take(struct sync_archive *archive, size_t max, struct str *out)
{
	if (archive->at == archive->len) {
		archive->at = 0;
		TRY(sync_receive(archive, &archive->len));
		if (!archive->len)
			return sync_bad_archive("it is cut off");
	}
	*out = (struct str){archive->room + archive->at, archive->len - archive->at};
	if (out->len > max)
		out->len = max;
	archive->at += out->len;
	return OK;
}

static fallible sync_take_block(struct sync_archive *archive, char block[TAR_BLOCK])
{
	struct str piece = STR("");

	for (size_t have = 0; have < TAR_BLOCK; have += piece.len) {
		TRY(sync_take(archive, TAR_BLOCK - have, &piece));
		memcpy(block + have, piece.at, piece.len);
	}
	return OK;
}

static fallible sync_skip(struct sync_archive *archive, uint64_t len)
{
	struct str piece = STR("");

	for (; len; len -= piece.len)
		TRY(sync_take(archive, len < PIECE ? (size_t)len : PIECE, &piece));
	return OK;
}

static fallible sync_spool(struct sync_box *sync, struct str bytes)
{
	if (pwrite(sync->spool, bytes.at, bytes.len, (off_t)sync->spooled) != (ssize_t)bytes.len)
		return err_new(NO_SPACE, "no_spool", "cannot write a temporary file: %s",
			       strerror(errno));
	sync->spooled += bytes.len;
	return OK;
}

// Reads the content of a member, and spools it.
static fallible sync_take_content(struct sync_archive *archive, struct listed_file *file)
{
	struct sync_box *sync = archive->sync;
	uint64_t start = sync->spooled;
	struct sha256 hash;
	struct str piece = STR("");

	sha256_begin(&hash);
	for (uint64_t left = file->size; left; left -= piece.len) {
		TRY(sync_take(archive, left < PIECE ? (size_t)left : PIECE, &piece));
		sha256_add(&hash, piece.at, piece.len);
		if (sync->spool >= 0)
			TRY(sync_spool(sync, piece));
	}
	sha256_end(&hash, file->hash);
	if (sync->spool >= 0)
		file->content = start;
	return sync_skip(archive, tar_padding(file->size));
}

static fallible sync_set_link(struct sync_box *sync, struct str target, struct listed_file *file)
{
	struct sha256 hash;

	if (target.len >= PATH_MAX)
		return sync_bad_archive("the target of a link is too long");
	sha256_begin(&hash);
	sha256_add(&hash, target.at, target.len);
	sha256_end(&hash, file->hash);
	file->is_link = true;
	file->mode = 0;
	file->size = target.len;
	if (sync->spool < 0)
		return OK;
	file->content = sync->spooled;
	return sync_spool(sync, target);
}

static fallible sync_check_size(const struct sync_box *sync, const char *path, uint64_t size)
{
	if (size <= sync->file_max)
		return OK;
	return err_hint(err_new(TOO_LARGE, "sync_file_too_large",
				"'%s' of the sandbox has %llu bytes, and the limit is %llu", path,
				(unsigned long long)size, (unsigned long long)sync->file_max),
			"--max-file SIZE sets another limit");
}

// A content that is that of the last sync is on this host already.
static void sync_unspool(struct sync_archive *archive, struct listed_file *file)
{
	const struct listed_file *old = file_list_find(archive->base, file->path);

	if (file->content == FILE_LIST_NO_CONTENT || !old || !file_list_same(old, file))
		return;
	archive->sync->spooled = file->content;
	file->content = FILE_LIST_NO_CONTENT;
}

static void sync_add_link(struct sync_archive *archive, struct str path, struct str target)
{
	archive->links = mem_grow(archive->links, archive->link_count + 1, sizeof(*archive->links));
	archive->links[archive->link_count++] = (struct sync_link){mem_dup(path.at, path.len),
								   mem_dup(target.at, target.len)};
}

// A member of the tree, and its path without a slash at the end. *wanted false: it is none of the
// files that are compared, or a hard link, which is noted.
static fallible sync_check_member(struct sync_archive *archive, const struct tar_head *head,
				  bool *wanted)
{
	struct sync_box *sync = archive->sync;
	bool is_directory = head->type == TAR_DIRECTORY;
	struct str path = head->path;

	*wanted = false;
	if (is_directory && str_ends(path, "/"))
		path.len--;
	if (is_directory && (!path.len || str_is(path, ".")))
		return OK;
	if (!file_list_is_path(path))
		return err_hint(err_new(INVALID, "bad_name",
					"the sandbox sent a name that leads out of the worktree"),
				"nothing was changed");
	if (file_list_is_git(path)) {
		if (!str_eq_nocase(path, STR(".git")))
			sync->note(sync->arg, "left_out", head->path.at);
		return OK;
	}
	if (is_directory || str_starts(path, FILE_LIST_STAGE))
		return OK;
	if (archive->out->count + archive->link_count >= sync->count_max)
		return err_hint(err_new(TOO_LARGE, "sync_too_many_files",
					"the sandbox has more than %llu files",
					(unsigned long long)sync->count_max),
				"--max-files NUMBER sets another limit");
	if (head->type == TAR_HARDLINK) {
		sync_add_link(archive, path, head->target);
		return OK;
	}
	if (head->type == TAR_SYMLINK && str_starts(head->target, SYNC_PLACED))
		return OK;
	if (head->type == TAR_OTHER)
		return sync_bad_archive("it has a member of an unknown type");
	*wanted = true;
	return OK;
}

static fallible sync_take_member(struct sync_archive *archive, const struct tar_head *head)
{
	struct sync_box *sync = archive->sync;
	struct listed_file *file;
	bool wanted = false;

	TRY(sync_check_member(archive, head, &wanted));
	if (!wanted)
		return sync_skip(archive, head->size + tar_padding(head->size));
	file = file_list_add(archive->out, head->path);
	if (head->type == TAR_SYMLINK) {
		TRY(sync_set_link(sync, head->target, file));
	} else {
		TRY(sync_check_size(sync, file->path, head->size));
		file->mode = head->mode & 0777;
		file->size = head->size;
		TRY(sync_take_content(archive, file));
	}
	sync_unspool(archive, file);
	return OK;
}

typedef fallible sync_member_fn(struct sync_archive *archive, const struct tar_head *head);

static fallible sync_take_all(struct sync_archive *archive, sync_member_fn *member)
{
	char block[TAR_BLOCK];
	struct tar_head head;

	tar_begin(&archive->tar);
	for (;;) {
		TRY(sync_take_block(archive, block));
		switch (tar_feed(&archive->tar, block, &head)) {
		case TAR_MORE:
			break;
		case TAR_ENTRY:
			TRY(member(archive, &head));
			break;
		case TAR_BAD:
			return sync_bad_archive(archive->tar.why);
		case TAR_END: {
			size_t rest = 1;

			// The end of the reply tells that the archive is whole.
			while (rest > 0)
				TRY(sync_receive(archive, &rest));
			return OK;
		}
		}
	}
}

static fallible sync_archive_open(struct sync_box *sync, const char *path, const char *options,
				  struct sync_archive **out)
{
	struct sync_archive *archive = mem_new_of(struct sync_archive);
	auto_buf rest = BUF_INIT(64 * 1024);

	archive->sync = sync;
	archive->room = mem_new(PIECE);
	*out = archive;
	buf_text(&rest, "/api/tar?path=");
	text_percent(&rest, str_of(path));
	buf_text(&rest, options);
	return sync_open(sync, "GET", rest.at, NULL, &archive->request);
}

static void sync_append(struct file_list *out, const struct file_list *others)
{
	for (size_t i = 0; i < others->count; i++) {
		struct listed_file *file = file_list_add(out, str_of(others->at[i].path));
		char *path = file->path;

		*file = others->at[i];
		file->path = path;
	}
	file_list_sort(out);
}

// A hard link is a file with the content of another one.
static fallible sync_add_links(struct sync_archive *archive)
{
	auto_file_list copies = {0};

	for (size_t i = 0; i < archive->link_count; i++) {
		const struct sync_link *link = &archive->links[i];
		const struct listed_file *other = file_list_find(archive->out, link->target);
		struct listed_file *copy;
		char *path;

		if (!other || other->is_link)
			return sync_bad_archive("a hard link leads to no file");
		copy = file_list_add(&copies, str_of(link->path));
		path = copy->path;
		*copy = *other;
		copy->path = path;
	}
	sync_append(archive->out, &copies);
	return OK;
}

static fallible sync_check_unique(const struct file_list *manifest)
{
	for (size_t i = 1; i < manifest->count; i++)
		if (!strcmp(manifest->at[i - 1].path, manifest->at[i].path))
			return sync_bad_archive("it has a name twice");
	return OK;
}

// -------------------------------------------------------------------------------- single files

static fallible sync_take_single(struct sync_archive *archive, const struct tar_head *head)
{
	struct listed_file *file;

	if (head->type != TAR_FILE || archive->out->count)
		return sync_bad_archive("one file was expected");
	file = file_list_add(archive->out, head->path);
	file->mode = head->mode & 0777;
	file->size = head->size;
	TRY(sync_check_size(archive->sync, file->path, head->size));
	return sync_take_content(archive, file);
}

static void sync_drop_archive(struct sync_archive **archive)
{
	if (*archive)
		sync_archive_free(archive);
}
#define auto_archive on_exit_call(sync_drop_archive) struct sync_archive *

static const char sync_whole[] = "&gitignore=true&exclude=**%2F.git%2F*";

// One regular file, whether git ignores it or not.
static fallible sync_get_file(struct sync_box *sync, const char *path, struct listed_file *out)
{
	auto_free char *place = mem_fmt(SYNC_HOME "/%s", path);
	auto_archive archive = NULL;
	auto_file_list one = {0};
	char *name = out->path;

	TRY(sync_archive_open(sync, place, "", &archive));
	archive->out = &one;
	TRY(sync_take_all(archive, sync_take_single));
	if (!one.count)
		return sync_bad_archive("one file was expected");
	*out = one.at[0];
	out->path = name;
	return OK;
}

static fallible sync_target(const struct json *answer, struct buf *out)
{
	const char *coded = fields_text(answer, "targetBase64");

	if (!*coded)
		buf_text(out, fields_text(answer, "target"));
	else if (!text_unbase64(out, str_of(coded)))
		return sync_bad_archive("the target of a link cannot be read");
	return OK;
}

// A file of the last sync that the archive does not have: it is gone, or ignored.
static fallible sync_look(struct sync_box *sync, const char *path, struct file_list *out)
{
	auto_free char *place = mem_fmt(SYNC_HOME "/%s", path);
	auto_free char *route = remote_path("/v1/sandboxes", cove_box_id(sync->box), "/api/stat");
	auto_buf body = BUF_INIT(BODY_MAX), target = BUF_INIT(PATH_MAX);
	struct json_out json = json_to(&body);
	auto_json answer = NULL;
	struct err *err;
	const char *type;

	json_begin(&json, '{');
	fields_path(&json, "path", place);
	json_put_bool(&json, "followSymlinks", false);
	json_end(&json, '}');
	err = remote_ask(sync->remote, "POST", route, &body, NULL, &answer);
	if (err && (!strcmp(sync->remote->error.code, "FILE_NOT_FOUND") ||
		    !strcmp(sync->remote->error.code, "NOT_DIRECTORY"))) {
		err_free(err);
		return OK;
	}
	TRY(err);
	type = fields_text(answer, "type");
	if (!strcmp(type, "symlink")) {
		TRY(sync_target(answer, &target));
		return sync_set_link(sync, buf_view(&target), file_list_add(out, str_of(path)));
	}
	if (!strcmp(type, "file"))
		return sync_get_file(sync, path, file_list_add(out, str_of(path)));
	return OK;
}

// --------------------------------------------------------------------------------------- lists

// A record of a list, without its NUL.
static fallible sync_take_record(struct sync_archive *archive, struct buf *out)
{
	struct str piece = STR("");
	const char *end = NULL;

	buf_clear(out);
	while (!end && buf_ok(out)) {
		TRY(sync_take(archive, PIECE, &piece));
		end = memchr(piece.at, 0, piece.len);
		if (end) {
			archive->at -= piece.len - (size_t)(end - piece.at) - 1;
			piece.len = (size_t)(end - piece.at) + 1;
		}
		buf_add(out, piece.at, piece.len);
	}
	return buf_ok(out) ? OK : sync_bad_archive("a record of a list is too long");
}

static bool sync_read_ns(struct str text, int64_t *out)
{
	bool is_negative = str_starts(text, "-");
	uint64_t value;

	if (!str_to_u64(str_skip(text, is_negative), 0, INT64_MAX, &value))
		return false;
	*out = is_negative ? -(int64_t)value : (int64_t)value;
	return true;
}

// Fills in *head and *times, which borrow from the text.
static bool sync_read_record(struct str line, struct tar_head *head, struct file_times *times)
{
	struct str type, mode, size, mtime, ctime, inode;
	uint64_t bits;

	*head = (struct tar_head){.target = STR("")};
	if (!str_cut(&line, ' ', &type) || !str_cut(&line, ' ', &mode) ||
	    !str_cut(&line, ' ', &size) || !str_cut(&line, ' ', &mtime) ||
	    !str_cut(&line, ' ', &ctime) || !str_cut(&line, ' ', &inode) || !line.at ||
	    !str_to_u64(mode, 0, 07777, &bits) || !str_to_u64(size, 0, INT64_MAX, &times->size) ||
	    !sync_read_ns(mtime, &times->mtime) || !sync_read_ns(ctime, &times->ctime) ||
	    !str_to_u64(inode, 0, UINT64_MAX, &times->inode))
		return false;
	head->type = str_is(type, "f")	 ? TAR_FILE
		     : str_is(type, "l") ? TAR_SYMLINK
		     : str_is(type, "d") ? TAR_DIRECTORY
					 : TAR_OTHER;
	head->mode = times->mode = (unsigned)bits;
	head->size = times->size;
	head->path = line;
	return true;
}

typedef fallible sync_record_fn(struct sync_archive *archive, const struct tar_head *head,
				const struct file_times *times, int64_t now);

// *listed false: the sandbox, or the server, is older than lists.
static fallible sync_list_all(struct sync_box *sync, const struct file_list *base,
			      struct file_list *out, sync_record_fn *each, bool *listed)
{
	auto_archive archive = NULL;
	auto_buf line = BUF_INIT(RECORD_MAX), target = BUF_INIT(RECORD_MAX);
	auto_free char *options = mem_fmt("%s&stats=true", sync_whole);
	struct err *err = sync_archive_open(sync, SYNC_HOME, options, &archive);
	struct file_times times = {0};
	struct tar_head head;
	int64_t now;

	*listed = !err || strcmp(err_reason(err), "old_box") != 0;
	if (!*listed) {
		err_free(err);
		return OK;
	}
	TRY(err);
	archive->base = base;
	archive->out = out;
	TRY(sync_receive(archive, &archive->len));
	*listed = archive->len >= 6 && !memcmp(archive->room, "stats ", 6);
	if (!*listed)
		return OK;
	TRY(sync_take_record(archive, &line));
	if (!sync_read_ns(str_skip((struct str){line.at, line.len - 1}, 6), &now))
		return sync_bad_archive("a list has no time");
	for (;;) {
		if (archive->at == archive->len) {
			archive->at = 0;
			TRY(sync_receive(archive, &archive->len));
		}
		if (!archive->len)
			return OK;
		TRY(sync_take_record(archive, &line));
		if (!sync_read_record((struct str){line.at, line.len - 1}, &head, &times))
			return sync_bad_archive("a record of a list cannot be read");
		if (head.type == TAR_SYMLINK) {
			TRY(sync_take_record(archive, &target));
			head.target = (struct str){target.at, target.len - 1};
		}
		TRY(each(archive, &head, &times, now));
	}
}

// A file without a hash has to be read. A file that changed just now could change again and have
// the same times.
static fallible sync_take_listed(struct sync_archive *archive, const struct tar_head *head,
				 const struct file_times *times, int64_t now)
{
	struct sync_box *sync = archive->sync;
	uint64_t stamp = file_stamp(times);
	const struct listed_file *old;
	struct listed_file *file;
	bool wanted = false;

	TRY(sync_check_member(archive, head, &wanted));
	if (!wanted)
		return OK;
	file = file_list_add(archive->out, head->path);
	if (head->type == TAR_SYMLINK) {
		TRY(sync_set_link(sync, head->target, file));
		sync_unspool(archive, file);
		return OK;
	}
	TRY(sync_check_size(sync, file->path, head->size));
	file->mode = head->mode & 0777;
	file->size = head->size;
	if (times->ctime < now)
		file->stamps[FILE_BOX] = stamp;
	old = file_list_find(archive->base, file->path);
	if (old && !old->is_link && old->stamps[FILE_BOX] == stamp && old->size == file->size &&
	    old->mode == file->mode)
		memcpy(file->hash, old->hash, sizeof(file->hash));
	return OK;
}

// After the first sync: a file with the time that it was sent with, and not that of a write, is as
// it was sent.
static fallible sync_take_sent(struct sync_archive *archive, const struct tar_head *head,
			       const struct file_times *times, int64_t now)
{
	struct listed_file *sent;

	(void)now;
	sent = (struct listed_file *)file_list_find(archive->out, head->path.at);
	if (sent && !sent->is_link && head->type == TAR_FILE && sent->size == head->size &&
	    sent->mode == head->mode && times->mtime == archive->sync->sent_at * 1000000000)
		sent->stamps[FILE_BOX] = file_stamp(times);
	return OK;
}

fallible sync_box_stamp(struct sync_box *sync, struct file_list *sent)
{
	bool listed;

	return sync_list_all(sync, NULL, sent, sync_take_sent, &listed);
}

// Names of tar begin with "./"; devices and the like stay.
static fallible sync_take_packed(struct sync_archive *archive, const struct tar_head *head)
{
	struct tar_head plain = *head;

	if (str_starts(plain.path, "./"))
		plain.path = str_skip(plain.path, 2);
	if (head->type == TAR_HARDLINK && str_starts(plain.target, "./"))
		plain.target = str_skip(plain.target, 2);
	if (head->type == TAR_OTHER)
		return sync_skip(archive, head->size + tar_padding(head->size));
	return sync_take_member(archive, &plain);
}

fallible sync_box_unpack(struct sync_box *sync, int from, struct file_list *out)
{
	static const struct file_list nothing;
	auto_archive archive = mem_new_of(struct sync_archive);

	archive->sync = sync;
	archive->from = from;
	archive->room = mem_new(PIECE);
	archive->base = &nothing;
	archive->out = out;
	TRY(sync_take_all(archive, sync_take_packed));
	file_list_sort(out);
	TRY(sync_check_unique(out));
	return sync_add_links(archive);
}

static fallible sync_read_tar(struct sync_box *sync, const struct file_list *base,
			      struct file_list *out)
{
	auto_archive archive = NULL;

	TRY(sync_archive_open(sync, SYNC_HOME, sync_whole, &archive));
	archive->base = base;
	archive->out = out;
	TRY(sync_take_all(archive, sync_take_member));
	file_list_sort(out);
	TRY(sync_check_unique(out));
	return sync_add_links(archive);
}

// The files of a list were as it says before they were read.
static void sync_keep_stamps(const struct file_list *list, struct file_list *read)
{
	for (size_t i = 0; i < read->count; i++) {
		struct listed_file *file = &read->at[i];
		const struct listed_file *same = file_list_find(list, file->path);

		if (same && !same->is_link && !file->is_link && same->size == file->size &&
		    same->mode == file->mode)
			file->stamps[FILE_BOX] = same->stamps[FILE_BOX];
	}
}

static bool sync_is_unread(const struct listed_file *file)
{
	return !file->hash[0];
}

// Reads the files that are not known. Few are read one by one.
static fallible sync_read_unknown(struct sync_box *sync, const struct file_list *base,
				  struct file_list *list, struct file_list *out)
{
	auto_file_list some = {0};
	size_t unread = 0;

	for (size_t i = 0; i < list->count; i++)
		unread += sync_is_unread(&list->at[i]);
	if (unread > GETS_MAX) {
		TRY(sync_read_tar(sync, base, out));
		sync_keep_stamps(list, out);
		return OK;
	}
	for (size_t i = 0; i < list->count; i++)
		if (sync_is_unread(&list->at[i]))
			TRY(sync_look(sync, list->at[i].path, &some));
	sync_keep_stamps(list, &some);
	for (size_t i = 0; i < list->count; i++) {
		struct listed_file *file = &list->at[i];
		struct listed_file *added;
		char *path;

		if (sync_is_unread(file))
			continue;
		added = file_list_add(out, str_of(file->path));
		path = added->path;
		*added = *file;
		added->path = path;
	}
	sync_append(out, &some);
	return OK;
}

static fallible sync_read_list(struct sync_box *sync, const struct file_list *base,
			       struct file_list *out)
{
	auto_file_list list = {0};
	bool listed;

	TRY(sync_list_all(sync, base, &list, sync_take_listed, &listed));
	if (!listed)
		return sync_read_tar(sync, base, out);
	file_list_sort(&list);
	TRY(sync_check_unique(&list));
	return sync_read_unknown(sync, base, &list, out);
}

fallible sync_box_read(struct sync_box *sync, const struct file_list *base, struct file_list *out)
{
	auto_file_list others = {0};

	TRY(sync_read_list(sync, base, out));
	for (size_t i = 0; i < base->count; i++)
		if (!file_list_find(out, base->at[i].path))
			TRY(sync_look(sync, base->at[i].path, &others));
	sync_append(out, &others);
	return sync_check_unique(out);
}

fallible sync_box_fetch(struct sync_box *sync, const struct plan *plan)
{
	for (size_t i = 0; i < plan->change_count; i++) {
		struct listed_file *to = (struct listed_file *)plan->changes[i].to;
		struct listed_file got = {.path = NULL};

		if (!to || to->content != FILE_LIST_NO_CONTENT)
			continue;
		if (to->is_link)
			return sync_bad_archive("a link has no target");
		TRY(sync_get_file(sync, to->path, &got));
		if (got.size != to->size || strcmp(got.hash, to->hash) != 0)
			return err_hint(err_new(CONFLICT, "sync_conflict",
						"'%s' changed in the sandbox during the sync",
						to->path),
					"nothing was changed; try again");
		to->content = got.content;
	}
	return OK;
}

// The archive has no such files. git judges which of them are ignored: four texts for each, of
// which the first is empty where no rule matched.
fallible sync_box_special(struct sync_box *sync, size_t *out_count)
{
	static const char judge[] = "printf '%s\\0' \"$@\" | git -c safe.directory='*' "
				    "check-ignore --no-index -z -v -n "
				    "--stdin";
	// clang-format off
	static const char *const argv[] = {
		"find", ".", "-name", ".git", "-prune", "-o",
		"(", "-type", "p", "-o", "-type", "s", "-o", "-type", "b", "-o", "-type", "c", ")",
		"-exec", "sh", "-c", judge, "judge", "{}", "+", NULL};
	// clang-format on
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = argv, .cwd = sync->home};
	struct err *err;
	bool ignored = false;
	struct str rest, text;

	*out_count = 0;
	err = sync->exec(sync, &command, &output);
	if (err && !strcmp(err_reason(err), "command_not_found")) {
		err_free(err);
		return OK;
	}
	TRY(err);
	rest = (struct str){output.out, output.out_len};
	for (size_t i = 0; rest.len && str_cut(&rest, 0, &text); i++) {
		auto_free char *path = NULL;

		if (i % 4 == 0)
			ignored = text.len > 0;
		if (i % 4 == 2 && str_starts(text, "!"))
			ignored = false;
		if (i % 4 != 3 || ignored)
			continue;
		path = mem_dup(text.at, text.len);
		sync->note(sync->arg, "special", str_starts(text, "./") ? path + 2 : path);
		++*out_count;
	}
	return OK;
}

// ------------------------------------------------------------------------------------- sending

static fallible sync_changed(const char *path)
{
	return err_hint(err_new(CONFLICT, "sync_conflict",
				"'%s' changed on this host during the sync", path),
			"'cove sync in' sends it again");
}

// Where an archive goes, in pieces.
struct sync_sink {
	const struct sync_box *sync;
	struct cove_request *request; // NULL: to `fd`
	int fd;
	char *room; // PIECE bytes
	size_t used;
};

static fallible sync_flush(struct sync_sink *sink)
{
	const char *bytes = sink->room;
	size_t len = sink->used;

	sink->used = 0;
	if (!len)
		return OK;
	if (sink->request)
		return sync_did(sink->sync, cove_request_write(sink->request, bytes, len,
							       &sink->sync->remote->error));
	if (fd_write_all(sink->fd, bytes, len) < 0)
		return err_new(NO_SPACE, "no_spool", "cannot write a temporary file: %s",
			       strerror(errno));
	return OK;
}

static fallible sync_write(struct sync_sink *sink, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		size_t fits = PIECE - sink->used < len ? PIECE - sink->used : len;

		memcpy(sink->room + sink->used, at, fits);
		sink->used += fits;
		at += fits;
		len -= fits;
		if (sink->used == PIECE)
			TRY(sync_flush(sink));
	}
	return OK;
}

// Opens the directory of a path of the worktree; *out_name is the last component.
static fallible sync_parent(int root, const char *path, int *out, const char **out_name)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = slash ? mem_dup(path, (size_t)(slash - path)) : mem_str(".");
	auto_err err = path_open(root, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, out);

	*out_name = slash ? slash + 1 : path;
	return err ? sync_changed(path) : OK;
}

static fallible sync_send_content(struct sync_sink *sink, int fd, const struct listed_file *file)
{
	static const char zeroes[TAR_BLOCK];
	auto_free char *room = mem_new(PIECE);
	char found[SHA256_HEX + 1];
	struct sha256 hash;

	sha256_begin(&hash);
	for (uint64_t left = file->size; left;) {
		ssize_t got = read(fd, room, left < PIECE ? (size_t)left : PIECE);

		if (got <= 0)
			return sync_changed(file->path);
		sha256_add(&hash, room, (size_t)got);
		TRY(sync_write(sink, room, (size_t)got));
		left -= (uint64_t)got;
	}
	sha256_end(&hash, found);
	if (strcmp(found, file->hash) != 0)
		return sync_changed(file->path);
	return sync_write(sink, zeroes, tar_padding(file->size));
}

static fallible sync_send_file(struct sync_sink *sink, int root, const struct listed_file *file)
{
	auto_free char *head_room = mem_new(TAR_HEAD_MAX);
	auto_free char *target = mem_new(PATH_MAX + 1);
	const char *name;
	auto_fd dir = -1;
	auto_fd fd = -1;
	struct tar_head head = {
		.type = file->is_link ? TAR_SYMLINK : TAR_FILE,
		.path = str_of(file->path),
		.target = STR(""),
		.mode = file->is_link ? 0777 : file->mode,
		.size = file->is_link ? 0 : file->size,
		.mtime = sink->sync->sent_at,
	};
	size_t len;

	TRY(sync_parent(root, file->path, &dir, &name));
	if (file->is_link) {
		ssize_t got = readlinkat(dir, name, target, PATH_MAX);

		if (got < 0)
			return sync_changed(file->path);
		target[got] = 0;
		head.target = (struct str){target, (size_t)got};
	} else {
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return sync_changed(file->path);
	}
	len = tar_write(&head, head_room, TAR_HEAD_MAX);
	if (!len)
		return err_new(INVALID, "bad_name", "'%s' does not fit into an archive",
			       file->path);
	TRY(sync_write(sink, head_room, len));
	return file->is_link ? OK : sync_send_content(sink, fd, file);
}

static fallible sync_send_members(struct sync_sink *sink, int root, const struct plan *plan)
{
	static const char end[2 * TAR_BLOCK];
	auto_free char *room = mem_new(PIECE);

	sink->room = room;
	for (size_t i = 0; i < plan->change_count; i++)
		if (plan->changes[i].to)
			TRY(sync_send_file(sink, root, plan->changes[i].to));
	TRY(sync_write(sink, end, sizeof(end)));
	return sync_flush(sink);
}

fallible sync_box_pack(struct sync_box *sync, int root, const struct plan *plan, int to)
{
	return sync_send_members(&(struct sync_sink){.sync = sync, .fd = to}, root, plan);
}

static fallible sync_send_files(const struct sync_box *sync, int root, const struct plan *plan)
{
	auto_request request = NULL;
	auto_buf reply = BUF_INIT(BODY_MAX + PIECE);
	auto_json answer = NULL;

	if (!plan->written)
		return OK;
	TRY(sync_open(sync, "PUT", "/api/tar?path=%2Fworkspace&sync=true", "application/x-tar",
		      &request));
	TRY(sync_send_members(&(struct sync_sink){.sync = sync, .request = request, .fd = -1}, root,
			      plan));
	TRY(sync_did(sync, cove_request_finish(request, &sync->remote->error)));
	TRY(sync_read_all(sync, request, &reply));
	TRY(json_read(buf_view(&reply), &answer));
	if (fields_number(answer, "skipped", 0) > 0)
		return err_new(CONFLICT, "sync_refused", "the sandbox could not take '%s'",
			       fields_text(answer, "firstSkipped"));
	return OK;
}

static int sync_order_deepest(const void *a, const void *b)
{
	return strcmp(*(char *const *)b, *(char *const *)a);
}

// Directories that lost their last file go, as git does it. A sandbox without rmdir keeps them.
static fallible sync_remove_directories(const struct sync_box *sync, char **paths, size_t count)
{
	const char *argv[DIRECTORIES_AT_ONCE + 4] = {"rmdir", "--ignore-fail-on-non-empty", "--"};
	size_t used = 3;

	qsort(paths, count, sizeof(*paths), sync_order_deepest);
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(paths[i - 1], paths[i]) != 0)
			argv[used++] = paths[i];
		if (used == DIRECTORIES_AT_ONCE + 3 || (i + 1 == count && used > 3)) {
			on_exit_call(cove_output_free) struct cove_output output = {0};
			struct cove_command command = {
				.argv = argv, .cwd = SYNC_HOME, .user = NULL};

			argv[used] = NULL;
			TRY(sync_did(sync, cove_exec_output(sync->box, &command, &output,
							    &sync->remote->error)));
			used = 3;
		}
	}
	return OK;
}

static fallible sync_delete_files(const struct sync_box *sync, const struct plan *plan)
{
	char **directories = NULL;
	size_t count = 0, room = 0;
	struct err *err = OK;

	for (size_t i = 0; i < plan->change_count && !err; i++) {
		auto_free char *path = NULL;
		char *slash;

		if (plan->changes[i].to)
			continue;
		path = mem_fmt(SYNC_HOME "/%s", plan->changes[i].path);
		err = sync_did(sync, cove_remove(sync->box, path, false, &sync->remote->error));
		if (err && !strcmp(sync->remote->error.code, "FILE_NOT_FOUND")) {
			err_free(err);
			err = OK;
		}
		while ((slash = strrchr(path, '/')) - path > (ptrdiff_t)strlen(SYNC_HOME)) {
			*slash = 0;
			if (count == room) {
				room = room ? 2 * room : 64;
				directories = mem_grow(directories, room, sizeof(*directories));
			}
			directories[count++] = mem_str(path);
		}
	}
	if (!err && count)
		err = sync_remove_directories(sync, directories, count);
	for (size_t i = 0; i < count; i++)
		free(directories[i]);
	free(directories);
	return err;
}

fallible sync_box_own(struct sync_box *sync)
{
	static const char *const ask[] = {
		"sh", "-c", "[ -w . ] || printf %s:%s \"$(id -u)\" \"$(id -g)\"", NULL};
	on_exit_call(cove_output_free) struct cove_output owner = {0};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = ask, .cwd = sync->home};
	const char *give[] = {"chown", NULL, sync->home, NULL};

	TRY(sync->exec(sync, &command, &owner));
	if (!owner.out_len || owner.out_len > 32 ||
	    strspn(owner.out, "0123456789:") != owner.out_len)
		return OK;
	give[1] = owner.out;
	command = (struct cove_command){.argv = give, .cwd = "/", .user = "0"};
	return sync->exec(sync, &command, &output);
}

fallible sync_box_send(struct sync_box *sync, int root, const struct plan *plan)
{
	sync->sent_at = clock_wall_ms() / 1000;
	TRY(sync_delete_files(sync, plan));
	return sync_send_files(sync, root, plan);
}

// A text that changes with the index, HEAD or configuration of .git. NULL: unknown.
static char *sync_git_state(const struct sync_box *sync)
{
	auto_free char *route = remote_path("/v1/sandboxes", cove_box_id(sync->box), "/api/stat");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json answer = NULL;
	auto_err err = NULL;

	json_begin(&json, '{');
	json_put_text(&json, "path", SYNC_HOME "/.git");
	json_put_bool(&json, "followSymlinks", false);
	json_end(&json, '}');
	err = remote_ask(sync->remote, "POST", route, &body, NULL, &answer);
	if (err || strcmp(fields_text(answer, "type"), "directory") != 0)
		return NULL;
	return mem_fmt("%lld %s %s", (long long)fields_number(answer, "inode", 0),
		       fields_text(answer, "modifiedAt"), fields_text(answer, "changedAt"));
}

bool sync_box_is_committed(const struct sync_box *sync, const char *state)
{
	auto_free char *found = sync->box && state ? sync_git_state(sync) : NULL;

	return found && !strcmp(found, state);
}

fallible sync_box_commit(struct sync_box *sync, char **out_state)
{
	// clang-format off
	static const char script[] =
		"command -v git >/dev/null 2>&1 || exit 77\n"
		"g() { git -c core.hooksPath=/dev/null -c core.protectNTFS=false -c commit.gpgSign=false"
		" -c user.name=cove -c user.email=cove@localhost -c init.defaultBranch=main"
		" -c safe.directory='*' \"$@\"; }\n"
		"[ -e .git ] || {\n"
		" g init -q || exit 1\n"
		" [ -z \"$1\" ] || git config user.name \"$1\"\n"
		" [ -z \"$2\" ] || git config user.email \"$2\"\n"
		"}\n"
		// The first commit has all files: one pack, not a file of git's for each.
		"g rev-parse -q --verify HEAD >/dev/null ||"
		" set -- \"$1\" \"$2\" -c core.bigFileThreshold=1 -c core.compression=0\n"
		"shift 2\n"
		"g \"$@\" add -A || exit 1\n"
		"g rev-parse -q --verify HEAD >/dev/null && g diff --cached --quiet ||"
		" g commit -q --allow-empty -m 'sync base'\n";
	// clang-format on
	const char *const argv[] = {"sh",
				    "-c",
				    script,
				    "commit",
				    sync->name ? sync->name : "",
				    sync->email ? sync->email : "",
				    NULL};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = argv, .cwd = sync->home};
	int status;

	TRY(sync->exec(sync, &command, &output));
	status = output.result.exit_code;
	if (status == NO_GIT || status == 127) {
		sync->note(sync->arg, "no_base_commit", "the sandbox has no git");
		return OK;
	}
	if (status)
		sync->note(sync->arg, "no_base_commit",
			   output.err_len ? output.err : "git failed in the sandbox");
	else if (sync->box)
		*out_state = sync_git_state(sync);
	return OK;
}
