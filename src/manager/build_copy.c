// Copies in two passes over the archive: the first finds what the sources mean, the second writes
// the entries, renamed, into the pipe of a file worker. Headers are parsed by codec/tar, and only
// they are read in the first pass.
//
// syscalls: pread64
#include "manager/build_copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/pipe.h"
#include "codec/ignore.h"
#include "codec/tar.h"
#include "loop/closer.h"
#include "loop/offload.h"

#define ROOM (256 * 1024)
#define SILENCE_MS 60000
#define ENTRIES_MAX 1000000
#define SOURCES_MAX 1000
#define DEPTH_MAX 256
#define PASSWD_MAX (512 * 1024)
#define TAR_MAGIC_AT 257

struct copying {
	const struct files *files;
	const struct build_copy *copy;
	char **sources; // cleaned
	struct {
		bool found, is_tree;
		uint32_t items; // distinct things that match
		char *item;	// the last of them
	} * seen;		// of each source
	uint64_t count;
	uint32_t uid, gid, mode;
	bool has_mode;
	bool into_dir;			     // names go beneath the destination
	char *base;			     // directory in the sandbox in which the worker unpacks
	char *prefix;			     // of new names, "" or "name/"
	char *name;			     // of a single file; NULL: its own
	const struct build_archive *archive; // that is being read
	char *room;
	uint64_t room_at;
	size_t room_len;
	struct tar_in *tar;
	// the pipe
	int pipe;
	struct sha256 *hash; // of build_copy_hash()
	bool closed;	     // by the worker: files_end() says why
	char *head;
};

static fallible bad_archive(const char *what)
{
	return err_new(INVALID, "bad_archive", "the context is no archive that can be copied: %s",
		       what);
}

// ----------------------------------------------------------------------------------------- reading

struct archive_read {
	int fd;
	void *room;
	uint64_t at;
	ssize_t got;
};

static void archive_read_run(void *arg)
{
	struct archive_read *job = arg;

	do
		job->got = pread(job->fd, job->room, ROOM, (off_t)job->at);
	while (job->got < 0 && errno == EINTR);
}

// At least one byte of the archive from `at` on; *out_len is how many.
static fallible archive_at(struct copying *copying, uint64_t at, const char **out, size_t *out_len)
{
	struct archive_read job = {.fd = copying->archive->fd, .room = copying->room, .at = at};

	if (at < copying->room_at || at >= copying->room_at + copying->room_len) {
		offload_run(archive_read_run, &job);
		if (job.got < 0)
			return err_sys(EIO, "read a context");
		copying->room_at = at;
		copying->room_len = (size_t)job.got;
		if (!job.got)
			return bad_archive("it ends too early");
	}
	*out = copying->room + (at - copying->room_at);
	*out_len = copying->room_len - (size_t)(at - copying->room_at);
	return OK;
}

static fallible archive_block(struct copying *copying, uint64_t at, char block[TAR_BLOCK])
{
	for (size_t done = 0; done < TAR_BLOCK;) {
		const char *bytes = NULL;
		size_t len = 0;

		TRY(archive_at(copying, at + done, &bytes, &len));
		if (!bytes)
			return bad_archive("it ends too early");
		if (len > TAR_BLOCK - done)
			len = TAR_BLOCK - done;
		memcpy(block + done, bytes, len);
		done += len;
	}
	return OK;
}

typedef fallible entry_fn(struct copying *copying, const struct tar_head *head, uint64_t content);

// The entry's whole name.
static fallible entry_name(const struct copying *copying, struct str name, struct buf *out)
{
	const struct build_archive *archive = copying->archive;

	buf_clear(out);
	if (archive->root)
		buf_text(out, archive->root);
	if (!archive->is_file) {
		buf_char(out, '/');
		buf_str(out, name);
	}
	buf_text(out, "");
	return buf_ok(out) ? OK : bad_archive("a path is too long");
}

static fallible entry_visit(struct copying *copying, entry_fn *each, const struct tar_head *head,
			    uint64_t content)
{
	auto_buf path = BUF_INIT(TAR_NAME_MAX), target = BUF_INIT(TAR_NAME_MAX);
	struct tar_head whole = *head;

	TRY(entry_name(copying, head->path, &path));
	whole.path = buf_view(&path);
	if (head->type == TAR_HARDLINK) {
		TRY(entry_name(copying, head->target, &target));
		whole.target = buf_view(&target);
	}
	return each(copying, &whole, content);
}

static fallible archive_walk_one(struct copying *copying, entry_fn *each, uint64_t *entries)
{
	uint64_t at = 0, bytes = copying->archive->bytes;

	copying->room_len = 0;
	tar_begin(copying->tar);
	if (copying->archive->is_directory) {
		struct tar_head root = {
			.type = TAR_DIRECTORY, .path = STR(""), .target = STR(""), .mode = 0755};

		TRY(entry_visit(copying, each, &root, 0));
	}
	while (at < bytes) {
		struct tar_head head;
		char block[TAR_BLOCK];
		enum tar_step step;

		TRY(archive_block(copying, at, block));
		at += TAR_BLOCK;
		step = tar_feed(copying->tar, block, &head);
		if (step == TAR_BAD)
			return bad_archive(copying->tar->why);
		if (step == TAR_END)
			return OK;
		if (step == TAR_MORE)
			continue;
		if (++*entries > ENTRIES_MAX)
			return bad_archive("it has too many entries");
		if (head.size > bytes)
			return bad_archive("an entry is larger than all of it");
		TRY(entry_visit(copying, each, &head, at));
		if (head.type == TAR_FILE || head.type == TAR_OTHER)
			at += head.size + tar_padding(head.size);
	}
	return OK;
}

// Calls `each` with every entry of every archive. Its head is valid during the call.
static fallible archive_walk(struct copying *copying, entry_fn *each)
{
	uint64_t entries = 0;

	for (size_t i = 0; i < copying->copy->archive_count; i++) {
		copying->archive = &copying->copy->archives[i];
		TRY(archive_walk_one(copying, each, &entries));
	}
	return OK;
}

// --------------------------------------------------------------------------------------- selecting

// Without "./" and slashes at the ends. INVALID if it leads out.
static fallible path_clean(struct str path, const char *what, char **out)
{
	auto_buf text = BUF_INIT(TAR_NAME_MAX);
	struct str part;

	while (path.len && str_cut(&path, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		if (str_is(part, ".."))
			return err_new(INVALID, "bad_plan", "%s leads out of the context", what);
		if (text.len)
			buf_char(&text, '/');
		buf_str(&text, part);
	}
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_plan", "%s is too long", what);
	buf_text(&text, "");
	*out = buf_take(&text);
	return OK;
}

static size_t path_depth(struct str path)
{
	size_t depth = path.len > 0;

	for (size_t i = 0; i < path.len; i++)
		depth += path.at[i] == '/';
	return depth;
}

// The first components of a path; len SIZE_MAX: it has fewer.
static bool path_head(struct str path, size_t depth, struct str *out)
{
	*out = path;
	if (path_depth(path) < depth)
		return false;
	for (size_t i = 0; i < path.len; i++)
		if (path.at[i] == '/' && !--depth) {
			out->len = i;
			break;
		}
	return true;
}

// Whether the source means the entry; *out_item: the part of its path that matches.
static bool source_matches(const char *source, struct str path, struct str *out_item)
{
	struct str pattern = str_of(source);

	*out_item = (struct str){path.at, 0};
	if (!pattern.len)
		return true;
	return path_head(path, path_depth(pattern), out_item) &&
	       (str_eq(pattern, *out_item) || ignore_match(pattern, *out_item));
}

static fallible entry_see(struct copying *copying, const struct tar_head *head, uint64_t content)
{
	auto_free char *path = NULL;

	(void)content;
	TRY(path_clean(head->path, "an entry", &path));
	if (!path)
		return bad_archive("an entry has no name");
	for (size_t i = 0; i < copying->copy->count; i++) {
		struct str item;

		if (!source_matches(copying->sources[i], str_of(path), &item))
			continue;
		copying->seen[i].found = true;
		if (!copying->sources[i][0] || item.len < strlen(path) ||
		    head->type == TAR_DIRECTORY)
			copying->seen[i].is_tree = true;
		if (copying->seen[i].item && str_is(item, copying->seen[i].item))
			continue;
		free(copying->seen[i].item);
		copying->seen[i].item = mem_dup(item.at, item.len);
		copying->seen[i].items++;
	}
	return OK;
}

static fallible sources_find(struct copying *copying)
{
	const struct build_copy *copy = copying->copy;

	if (copy->count > SOURCES_MAX)
		return err_new(INVALID, "bad_plan", "a copy has too many sources");
	for (size_t i = 0; i < copy->count; i++)
		TRY(path_clean(str_of(copy->sources[i]), "a source", &copying->sources[i]));
	TRY(archive_walk(copying, entry_see));
	for (size_t i = 0; i < copy->count; i++)
		if (!copying->seen[i].found && copying->sources[i][0])
			return err_hint(err_new(INVALID, "no_source",
						"'%.200s' is not in what is copied from",
						copy->sources[i]),
					"paths begin at the context's directory; .dockerignore may "
					"leave it out");
	return OK;
}

// ------------------------------------------------------------------------------------- destination

static fallible destination_find(struct copying *copying)
{
	const struct build_copy *copy = copying->copy;
	bool slash = str_ends(str_of(copy->to), "/"), tree = false, exists = false;
	auto_free char *to = NULL;
	uint32_t items = 0;
	struct fileop_stat stat;
	struct err *err;
	char *last;

	for (size_t i = 0; i < copy->count; i++) {
		tree |= copying->seen[i].is_tree || !copying->sources[i][0];
		items += copying->seen[i].items;
	}
	if ((copy->count > 1 || (items > 1 && !tree)) && !slash)
		return err_hint(
			err_new(INVALID, "bad_plan",
				"several sources are copied to '%.200s', which is no directory",
				copy->to),
			"end it with a slash");
	TRY(path_clean(str_of(copy->to), "the destination", &to));
	if (!to || !to[0]) {
		copying->base = mem_str("/");
		copying->into_dir = true;
		copying->prefix = mem_str("");
		return OK;
	}
	copying->base = mem_fmt("/%s", to);
	err = files_stat(copying->files, copying->base, true, &stat);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return err;
	exists = !err && stat.type == FILEOP_DIRECTORY;
	err_free(err);
	copying->into_dir = tree || slash || exists;
	if (exists) {
		copying->prefix = mem_str("");
		return OK;
	}
	last = strrchr(copying->base, '/');
	if (copying->into_dir)
		copying->prefix = mem_fmt("%s/", last + 1);
	else
		copying->name = mem_str(last + 1);
	if (!copying->prefix)
		copying->prefix = mem_str("");
	last[last == copying->base] = '\0';
	return OK;
}

// The number of a name in a passwd or group file: NAME:x:NUMBER:…
static fallible name_find(const struct files *files, const char *path, struct str name, int field,
			  uint32_t *out, uint32_t *out_group)
{
	auto_buf text = BUF_INIT(PASSWD_MAX);
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	struct str rest, line, part;
	uint64_t number;

	if (str_to_u64(name, 0, UINT32_MAX - 1, &number)) {
		*out = (uint32_t)number;
		return OK;
	}
	TRY(files_read(files, path, &text, &fd, &stat));
	rest = buf_view(&text);
	while (str_cut(&rest, '\n', &line)) {
		if (!str_cut(&line, ':', &part) || !str_eq(part, name))
			continue;
		for (int i = 0; i < field; i++)
			str_cut(&line, ':', &part);
		if (!str_to_u64(part, 0, UINT32_MAX - 1, &number))
			break;
		*out = (uint32_t)number;
		if (out_group && str_cut(&line, ':', &part) &&
		    str_to_u64(part, 0, UINT32_MAX - 1, &number))
			*out_group = (uint32_t)number;
		return OK;
	}
	return err_hint(
		err_new(INVALID, "no_user", "'" STR_FMT "' is not in %s", STR_ARG(name), path),
		"give numbers: --chown=UID:GID");
}

static fallible owner_find(struct copying *copying)
{
	struct str rest = str_of(copying->copy->chown), user;
	struct str mode = str_of(copying->copy->chmod);

	if (rest.len) {
		bool has_group = strchr(copying->copy->chown, ':') != NULL;

		str_cut(&rest, ':', &user);
		TRY(name_find(copying->files, "/etc/passwd", user, 2, &copying->uid,
			      &copying->gid));
		if (!has_group && str_to_u64(user, 0, UINT32_MAX, &(uint64_t){0}))
			copying->gid = copying->uid;
		if (has_group)
			TRY(name_find(copying->files, "/etc/group", rest, 2, &copying->gid, NULL));
	}
	if (!mode.at)
		return OK;
	copying->has_mode = mode.len > 0;
	if (copying->has_mode && !str_to_mode(mode, &copying->mode))
		return err_hint(err_new(INVALID, "bad_plan", "'%.40s' is no mode", mode.at),
				"--chmod takes an octal number, such as 0755");
	return OK;
}

// ----------------------------------------------------------------------------------------- writing

static fallible pipe_put(struct copying *copying, const char *bytes, size_t len)
{
	while (len && !copying->closed) {
		ssize_t put = pipe_give(box_at(copying->files->box), copying->pipe, bytes, len);
		uint32_t ready;

		if (put >= 0) {
			bytes += put;
			len -= (size_t)put;
		} else if (errno == EPIPE) {
			copying->closed = true;
		} else if (errno == EAGAIN) {
			TRY(task_wait_fd(copying->pipe, EPOLLOUT,
					 loop_now(task_loop()) + SILENCE_MS, &ready));
		} else if (errno != EINTR) {
			return err_sys(errno, "write an archive");
		}
	}
	return OK;
}

static fallible put_head(struct copying *copying, const struct tar_head *head)
{
	size_t len = tar_write(head, copying->head, TAR_HEAD_MAX);

	return len ? pipe_put(copying, copying->head, len) : bad_archive("a path is too long");
}

static fallible put_content(struct copying *copying, uint64_t at, uint64_t size)
{
	static const char zeros[TAR_BLOCK];
	uint64_t left = size;

	while (left && !copying->closed) {
		const char *bytes = NULL;
		size_t len = 0;

		TRY(archive_at(copying, at, &bytes, &len));
		if (len > left)
			len = (size_t)left;
		TRY(pipe_put(copying, bytes, len));
		at += len;
		left -= len;
	}
	return pipe_put(copying, zeros, tar_padding(size));
}

// The new name of what a source means; NULL: the entry is the source's own directory.
static char *new_name(const struct copying *copying, size_t source, struct str path,
		      struct str item)
{
	struct str rest = str_skip(path, item.len + (item.len && item.len < path.len));
	const char *name;

	if (copying->seen[source].is_tree && item.len < path.len)
		return mem_fmt("%s" STR_FMT, copying->prefix, STR_ARG(rest));
	name = item.at + item.len;
	while (name > item.at && name[-1] != '/')
		name--;
	if (copying->into_dir)
		return mem_fmt("%s%.*s", copying->prefix, (int)(item.at + item.len - name), name);
	return mem_str(copying->name);
}

// A link within what is copied gets its new name, any other cannot be made.
static fallible link_target(const struct copying *copying, size_t source, struct str target,
			    char **out)
{
	auto_free char *path = NULL;
	struct str item;

	TRY(path_clean(target, "a hard link", &path));
	if (!source_matches(copying->sources[source], str_of(path), &item))
		return err_hint(err_new(INVALID, "bad_archive",
					"a hard link leads out of what is copied: %.200s", path),
				"copy the file that it is a link to, too");
	*out = new_name(copying, source, str_of(path), item);
	return OK;
}

// Whether the file is an archive, by its first bytes.
static fallible content_is_archive(struct copying *copying, const struct tar_head *head,
				   uint64_t content, bool *out)
{
	static const struct str marks[] = {
		{"\x1f\x8b", 2}, {"BZh", 3}, {"\xfd\x37zXZ", 6}, {"\x28\xb5\x2f\xfd", 4}};
	char block[TAR_BLOCK];

	*out = false;
	if (head->type != TAR_FILE || head->size < sizeof(block) / 8)
		return OK;
	TRY(archive_block(copying, content, block));
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		*out |= !memcmp(block, marks[i].at, marks[i].len);
	*out |= head->size >= TAR_BLOCK && !memcmp(block + TAR_MAGIC_AT, "ustar", 5);
	return OK;
}

// Notes a source that is an archive itself, which is unpacked instead of copied.
static fallible entry_note(struct copying *copying, const struct tar_head *head, uint64_t content,
			   bool *out)
{
	const struct build_copy *copy = copying->copy;

	*out = false;
	if (!copy->found)
		return OK;
	TRY(content_is_archive(copying, head, content, out));
	if (!*out)
		return OK;
	if (*copy->found_count == BUILD_FOUND_MAX)
		return bad_archive("there are too many archives in it");
	copy->found[(*copy->found_count)++] = (struct build_found){
		.archive = (size_t)(copying->archive - copy->archives),
		.at = content,
		.bytes = head->size,
	};
	return OK;
}

static fallible entry_put(struct copying *copying, const struct tar_head *head, uint64_t content)
{
	auto_free char *path = NULL;
	bool noted = false;

	if (copying->closed || head->type == TAR_OTHER)
		return OK;
	TRY(path_clean(head->path, "an entry", &path));
	for (size_t i = 0; i < copying->copy->count; i++) {
		auto_free char *name = NULL, *target = NULL;
		struct tar_head own = *head;
		struct str item;

		if (!source_matches(copying->sources[i], str_of(path), &item))
			continue;
		if (item.len == strlen(path) && head->type == TAR_DIRECTORY)
			continue; // what is in it is copied, not the directory
		if (item.len == strlen(path))
			TRY(entry_note(copying, head, content, &noted));
		if (noted)
			return OK;
		name = new_name(copying, i, str_of(path), item);
		if (head->type == TAR_HARDLINK)
			TRY(link_target(copying, i, head->target, &target));
		if (target)
			own.target = str_of(target);
		own.path = str_of(name);
		if (!copying->copy->keep_owners) {
			own.uid = copying->uid;
			own.gid = copying->gid;
		}
		if (copying->has_mode && head->type != TAR_SYMLINK)
			own.mode = copying->mode;
		copying->count++;
		TRY(put_head(copying, &own));
		if (head->type == TAR_FILE)
			TRY(put_content(copying, content, head->size));
	}
	return OK;
}

// The destination itself, where it is new: with the owner of the files.
static fallible put_destination(struct copying *copying)
{
	struct tar_head head = {.type = TAR_DIRECTORY,
				.path = str_of(copying->prefix),
				.target = STR(""),
				.mode = 0755,
				.uid = copying->uid,
				.gid = copying->gid};

	return copying->prefix[0] ? put_head(copying, &head) : OK;
}

static fallible copy_all(struct copying *copying)
{
	static const char end[2 * TAR_BLOCK];

	TRY(put_destination(copying));
	TRY(archive_walk(copying, entry_put));
	return pipe_put(copying, end, sizeof(end));
}

static fallible copy_unpack(struct copying *copying, fallible (*put)(struct copying *copying))
{
	struct files_walk *walk = NULL;
	struct files_total total = {0};
	struct err *err;

	TRY(files_unpack(copying->files, copying->base, FILEOP_OWNERS, &copying->pipe, &walk));
	err = put(copying);
	closer_drop(&copying->pipe);
	if (err) {
		files_drop(walk);
		return err;
	}
	TRY(files_end(walk, &total));
	if (total.skipped)
		return err_hint(err_new(INVALID, "not_copied",
					"%llu of the entries cannot be made there: %.200s",
					(unsigned long long)total.skipped, total.note),
				"a link of the image may be in the way");
	return OK;
}

static void copying_done(struct copying *copying)
{
	for (size_t i = 0; i < copying->copy->count; i++) {
		free(copying->sources[i]);
		free(copying->seen[i].item);
	}
	free(copying->sources);
	free(copying->seen);
	free(copying->base);
	free(copying->prefix);
	free(copying->name);
	free(copying->room);
	free(copying->tar);
	free(copying->head);
	closer_drop(&copying->pipe);
}

// ----------------------------------------------------------------------------------------- hashing

static void hash_number(struct copying *copying, uint64_t number)
{
	sha256_add(copying->hash, &number, sizeof(number));
}

static void hash_text(struct copying *copying, struct str text)
{
	hash_number(copying, text.len);
	sha256_add(copying->hash, text.at ? text.at : "", text.len);
}

static fallible hash_content(struct copying *copying, uint64_t at, uint64_t size)
{
	while (size) {
		const char *bytes = NULL;
		size_t len = 0;

		TRY(archive_at(copying, at, &bytes, &len));
		if (len > size)
			len = (size_t)size;
		sha256_add(copying->hash, bytes ? bytes : "", len);
		at += len;
		size -= len;
	}
	return OK;
}

static fallible entry_hash(struct copying *copying, const struct tar_head *head, uint64_t content)
{
	auto_free char *path = NULL;

	if (head->type == TAR_OTHER)
		return OK;
	TRY(path_clean(head->path, "an entry", &path));
	for (size_t i = 0; i < copying->copy->count; i++) {
		struct str item;

		if (!source_matches(copying->sources[i], str_of(path), &item))
			continue;
		if (item.len == strlen(path) && head->type == TAR_DIRECTORY)
			continue; // not copied itself
		hash_number(copying, i);
		hash_text(copying, item);
		hash_text(copying, str_of(path));
		hash_number(copying, head->type);
		hash_number(copying, head->mode);
		hash_text(copying, head->target);
		hash_number(copying, copying->copy->keep_owners ? head->uid : 0);
		hash_number(copying, copying->copy->keep_owners ? head->gid : 0);
		hash_number(copying, head->type == TAR_FILE ? head->size : 0);
		if (head->type == TAR_FILE)
			TRY(hash_content(copying, content, head->size));
	}
	return OK;
}

static struct copying copying_begin(const struct files *files, const struct build_copy *copy)
{
	struct copying copying = {
		.files = files,
		.copy = copy,
		.pipe = -1,
	};

	copying.sources = mem_new((copy->count + 1) * sizeof(char *));
	copying.seen = mem_new((copy->count + 1) * sizeof(*copying.seen));
	copying.room = mem_new(ROOM);
	copying.tar = mem_new_of(struct tar_in);
	copying.head = mem_new(TAR_HEAD_MAX);
	return copying;
}

fallible build_copy_hash(const struct build_copy *copy, struct sha256 *hash)
{
	on_exit_call(copying_done) struct copying copying = copying_begin(NULL, copy);

	copying.hash = hash;
	TRY(sources_find(&copying));
	return archive_walk(&copying, entry_hash);
}

fallible build_copy(const struct files *files, const struct build_copy *copy, uint64_t *out_count)
{
	on_exit_call(copying_done) struct copying copying = copying_begin(files, copy);

	TRY(sources_find(&copying));
	TRY(destination_find(&copying));
	TRY(owner_find(&copying));
	TRY(copy_unpack(&copying, copy_all));
	*out_count = copying.count;
	return OK;
}

// ------------------------------------------------------------------------------------ directories

// Splits a path into what is there, `base`, and what is missing beneath it, `prefix`.
static fallible dirs_find(struct copying *copying, const char *path)
{
	auto_free char *clean = NULL;
	struct fileop_stat stat;

	TRY(path_clean(str_of(path), "a directory", &clean));
	copying->base = mem_fmt("/%s", clean ? clean : "");
	copying->prefix = mem_str("");
	for (;;) {
		struct err *err = files_stat(copying->files, copying->base, true, &stat);
		char *last = strrchr(copying->base, '/'), *rest;

		if (!err || err_kind(err) != ERR_NOT_FOUND || !last[1])
			return err;
		err_free(err);
		rest = mem_fmt("%s%s%s", last + 1, copying->prefix[0] ? "/" : "", copying->prefix);
		free(copying->prefix);
		copying->prefix = rest;
		last[last == copying->base] = '\0';
	}
}

static fallible dirs_put(struct copying *copying)
{
	static const char end[2 * TAR_BLOCK];
	auto_free char *path = mem_fmt("%s/", copying->prefix);

	for (char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
		auto_free char *dir = mem_dup(path, (size_t)(at - path));
		struct tar_head head = {.type = TAR_DIRECTORY,
					.path = str_of(dir),
					.target = STR(""),
					.mode = 0755,
					.uid = copying->uid,
					.gid = copying->gid};

		TRY(put_head(copying, &head));
	}
	return pipe_put(copying, end, sizeof(end));
}

fallible build_copy_dir(const struct files *files, const char *path, const char *owner)
{
	struct build_copy copy = {.chown = owner};
	on_exit_call(copying_done) struct copying copying = copying_begin(files, &copy);
	struct err *err = OK;

	TRY(dirs_find(&copying, path));
	if (!copying.prefix[0])
		return files_mkdir(files, path, true, 0755);
	err = owner_find(&copying);
	if (err && err_kind(err) != ERR_NOT_FOUND && strcmp(err_reason(err), "no_user") != 0)
		return err;
	if (err)
		copying.uid = copying.gid = 0;
	err_free(err);
	return copy_unpack(&copying, dirs_put);
}
