// Two passes. The first lists the directories that can have matches, and remembers what matches: a
// walk holds a file worker of the box, and none is needed for two things at once. The second copies
// one file after the other, each from a descriptor, so that a name that is exchanged meanwhile
// leads nowhere else. A symlink is stored as its target.
//
// syscalls: pread64 pwrite64 fstat
#include "agent/artifacts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "codec/glob.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "loop/pump.h"

#define TURN_STEPS (1u << 18) // of matching between two turns of the loop
#define SCAN_MAX 1000000u     // entries that one glob may look at
#define STEP_MS 60000	      // for one operation in the box
#define SLICE (4ull << 20)
#define COPY_ROOM (256u << 10)
#define TARGET_MAX 4096

struct artifact {
	char *path; // absolute
	struct fileop_stat stat;
	char *target; // of a symlink
};

struct artifacts_search {
	const struct files *files;
	const struct artifacts_spec *spec;
	struct artifact *found;
	size_t count, names;
	size_t steps; // since the last turn of the loop
	struct map *paths;
	bool partial, cancelled;
	bool full; // a cap is reached: nothing more is looked for
};

fallible artifacts_check_glob(struct str glob)
{
	struct str rest = glob, part;

	if (!glob.len || glob.len > FILEOP_PATH_MAX || memchr(glob.at, 0, glob.len))
		return err_new(INVALID, "bad_field", "a pattern of artifacts has 1 to %d bytes",
			       FILEOP_PATH_MAX);
	while (str_cut(&rest, '/', &part))
		if (str_is(part, ".."))
			return err_new(INVALID, "bad_field",
				       "a pattern of artifacts has no part '..'");
	return OK;
}

// "/a/b", without empty parts and ".".
static char *artifacts_absolute(const char *base, const char *path)
{
	auto_buf out = BUF_INIT(2 * FILEOP_PATH_MAX + 16);
	auto_free char *joined = path[0] == '/' ? mem_str(path) : mem_fmt("%s/%s", base, path);
	struct str rest = str_of(joined), part;

	while (str_cut(&rest, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		buf_char(&out, '/');
		buf_str(&out, part);
	}
	if (!out.len)
		buf_char(&out, '/');
	return buf_take(&out);
}

// How much of a glob is a directory without wildcards.
static size_t artifacts_fixed(const char *glob)
{
	size_t len = strcspn(glob, "*?[\\");

	while (len && glob[len] && glob[len - 1] != '/')
		len--;
	return len;
}

static int64_t artifacts_step(const struct artifacts_search *search)
{
	int64_t soon = loop_now(task_loop()) + STEP_MS;

	return soon < search->spec->deadline ? soon : search->spec->deadline;
}

static bool artifacts_is_late(const struct artifacts_search *search)
{
	return loop_now(task_loop()) >= search->spec->deadline;
}

// Takes `path` over.
static void artifacts_remember(struct artifacts_search *search, char *path,
			       const struct fileop_stat *stat, struct str target)
{
	size_t len = strlen(path) + target.len;

	if (map_get(search->paths, str_of(path))) { // another glob named it
		free(path);
		return;
	}
	if (search->count == ARTIFACTS_FILES_MAX || search->names + len > ARTIFACTS_NAMES_MAX) {
		search->partial = search->full = true;
		free(path);
		return;
	}
	map_put(search->paths, str_of(path), search);
	search->names += len;
	search->found = mem_grow(search->found, search->count + 1, sizeof(*search->found));
	search->found[search->count++] = (struct artifact){
		path, *stat, stat->type == FILEOP_SYMLINK ? mem_dup(target.at, target.len) : NULL};
}

static bool artifacts_takes(enum fileop_type type)
{
	return type == FILEOP_REGULAR || type == FILEOP_SYMLINK;
}

// Errors that say that nothing is there, and not that it could not be seen.
static bool artifacts_says_absent(const struct err *err)
{
	return err_kind(err) == ERR_NOT_FOUND || !strcmp(err_reason(err), "not_directory");
}

struct artifact_match {
	const char *glob, *path;
	bool hit;
};

static void artifact_match_run(void *arg)
{
	struct artifact_match *match = arg;

	match->hit = glob_match(match->glob, match->path);
}

// The loop has its turn after a bounded number of steps; what alone takes more runs on a worker.
static fallible artifacts_match(struct artifacts_search *search, struct artifact_match *match)
{
	search->steps += strlen(match->glob) * strlen(match->path);
	if (search->steps < TURN_STEPS) {
		artifact_match_run(match);
		return OK;
	}
	search->steps = 0;
	offload_run(artifact_match_run, match);
	if (artifacts_is_late(search))
		return err_new(TIMEOUT, "timeout", "the artifacts took too long");
	return task_sleep_until(0);
}

static fallible artifacts_walk(struct artifacts_search *search, const char *directory,
			       const char *glob, struct files_walk *walk, bool *out_hit)
{
	bool more = true;

	while (!search->full) {
		struct fileop_entry entry;
		auto_free char *path = NULL;
		struct artifact_match match = {.glob = glob};

		TRY(files_next_entry(walk, &entry, &more));
		if (!more)
			return OK;
		path = mem_fmt("%s%.*s", directory, STR_ARG(entry.path));
		match.path = path;
		TRY(artifacts_match(search, &match));
		if (!artifacts_takes(entry.stat.type) || !match.hit)
			continue;
		*out_hit = true;
		artifacts_remember(search, take_ptr(path), &entry.stat, entry.target);
	}
	return OK;
}

static fallible artifacts_list(struct artifacts_search *search, const char *glob, bool *out_hit)
{
	auto_free char *directory = mem_dup(glob, artifacts_fixed(glob));
	struct files files = *search->files;
	struct files_walk *walk = NULL;
	struct files_total total = {0};
	bool is_deep = strchr(glob + strlen(directory), '/') || strstr(glob, "**");
	struct err *err;

	files.deadline = search->spec->deadline;
	TRY(files_list(&files, directory, FILEOP_HIDDEN | (is_deep ? FILEOP_RECURSIVE : 0),
		       SCAN_MAX, &walk));
	err = artifacts_walk(search, directory, glob, walk, out_hit);
	if (err || search->full) {
		files_drop(walk);
		return err;
	}
	TRY(files_end(walk, &total));
	search->partial |= total.more || total.skipped;
	return OK;
}

static fallible artifacts_plain(struct artifacts_search *search, const char *path, bool *out_hit)
{
	struct files files = *search->files;
	struct fileop_stat stat;
	auto_buf target = BUF_INIT(TARGET_MAX);

	files.deadline = artifacts_step(search);
	TRY(files_stat(&files, path, false, &stat));
	if (stat.type == FILEOP_DIRECTORY) {
		auto_free char *below = mem_fmt("%s/**", path);

		return artifacts_list(search, below, out_hit);
	}
	if (stat.type == FILEOP_SYMLINK)
		TRY(files_readlink(&files, path, &target));
	*out_hit = artifacts_takes(stat.type);
	if (*out_hit)
		artifacts_remember(search, mem_str(path), &stat, buf_view(&target));
	return OK;
}

// False: nothing matches.
static bool artifacts_find(struct artifacts_search *search, const char *glob)
{
	auto_free char *whole = artifacts_absolute(
		search->files->base ? search->files->base : "/workspace", glob);
	bool hit = false;
	auto_err err = strpbrk(whole, "*?[\\") ? artifacts_list(search, whole, &hit)
					       : artifacts_plain(search, whole, &hit);

	search->cancelled |= err && err_kind(err) == ERR_CANCELLED;
	if (err && !artifacts_says_absent(err))
		search->partial = true;
	return hit;
}

// --------------------------------------------------------------------------------- copies

struct artifact_copy {
	int from, to;
	uint64_t at, until, slice;
	bool ended;
	int errnum, write_errnum;
};

static void artifact_copy_slice(void *arg)
{
	struct artifact_copy *copy = arg;
	auto_free char *room = mem_new(COPY_ROOM);
	uint64_t end = copy->at + SLICE < copy->until ? copy->at + SLICE : copy->until;

	if (pump_is_short(copy->to))
		copy->write_errnum = ENOSPC;
	while (copy->at < end && !copy->write_errnum) {
		size_t want = end - copy->at < COPY_ROOM ? (size_t)(end - copy->at) : COPY_ROOM;
		ssize_t n = pread(copy->from, room, want, (off_t)copy->at);

		if (n < 0 && errno == EINTR)
			continue;
		copy->errnum = n < 0 ? errno : 0;
		copy->ended = n <= 0;
		if (copy->ended)
			return;
		for (size_t done = 0; done < (size_t)n && !copy->write_errnum;) {
			ssize_t put = pwrite(copy->to, room + done, (size_t)n - done,
					     (off_t)(copy->at + done));

			if (put > 0)
				done += (size_t)put;
			else if (errno != EINTR)
				copy->write_errnum = put ? errno : EIO;
		}
		copy->at += (uint64_t)n;
	}
	copy->ended = copy->at == copy->until;
}

struct artifact_stat {
	int fd;
	struct stat st;
	bool good;
};

static void artifact_look(void *arg)
{
	struct artifact_stat *stat = arg;

	stat->good = !fstat(stat->fd, &stat->st);
}

// Copies what the file had when it was opened. *changed: it was shorter, or written meanwhile.
static fallible artifact_copy_fd(const struct artifacts_search *search, int from, uint64_t size,
				 int to, bool *changed)
{
	struct artifact_copy copy = {.from = from, .to = to, .until = size, .ended = size == 0};
	struct artifact_stat before = {.fd = from}, after = {.fd = from};

	offload_run(artifact_look, &before);
	while (!copy.ended) {
		offload_run(artifact_copy_slice, &copy);
		if (copy.write_errnum)
			return pump_explain(copy.write_errnum, "write an artifact");
		if (!copy.ended && artifacts_is_late(search))
			return err_new(TIMEOUT, "timeout", "the artifacts took too long");
		TRY(task_sleep_until(0));
	}
	offload_run(artifact_look, &after);
	*changed = copy.at < size || !before.good || !after.good ||
		   (uint64_t)after.st.st_size != size ||
		   before.st.st_mtim.tv_sec != after.st.st_mtim.tv_sec ||
		   before.st.st_mtim.tv_nsec != after.st.st_mtim.tv_nsec;
	return OK;
}

// Whether the open file is the one that was listed, or took its name in a regular way.
static bool artifact_is_same(const struct files *files, const struct artifact *artifact,
			     const struct fileop_stat *opened)
{
	struct fileop_stat now;

	if (opened->inode == artifact->stat.inode)
		return true;
	auto_err err = files_stat(files, artifact->path, false, &now);

	return !err && now.type == FILEOP_REGULAR && now.inode == opened->inode;
}

struct artifact_source {
	struct buf small;
	int fd;
	struct fileop_stat stat;
};

static void artifact_source_done(struct artifact_source *source)
{
	buf_done(&source->small);
	closer_drop(&source->fd);
}

// Makes the blob of a regular file. An error of the box is returned as NOT_FOUND.
static fallible artifact_store(struct blobs *blobs, struct artifacts_search *search,
			       const struct artifact *artifact, struct store_file *out)
{
	on_exit_call(artifact_source_done) struct artifact_source source = {
		.small = BUF_INIT(FILEOP_SMALL), .fd = -1};
	struct files files = *search->files;
	struct blob_upload *upload = NULL;
	char name[SHA256_HEX + 1];
	bool changed = false;
	uint64_t size = 0;
	struct err *err;

	files.deadline = artifacts_step(search);
	err = files_read(&files, artifact->path, &source.small, &source.fd, &source.stat);
	if (err && err_kind(err) != ERR_CANCELLED)
		return err_recast(err, ERR_NOT_FOUND, "no_file", "the file cannot be read");
	TRY(err);
	if (!artifact_is_same(&files, artifact, &source.stat))
		return err_new(NOT_FOUND, "no_file", "the file was exchanged");
	size = source.fd < 0 ? source.small.len : source.stat.size;
	if (size > search->spec->max_bytes || size > blobs_left(blobs, search->spec->tenant))
		return err_new(NOT_FOUND, "no_room", "the file is over the cap");
	TRY(blob_begin(blobs, true, &upload));
	err = source.fd < 0 ? pump_put(blob_fd(upload), source.small.at, source.small.len)
			    : artifact_copy_fd(search, source.fd, size, blob_fd(upload), &changed);
	if (err) {
		blob_abort(upload);
		return err;
	}
	TRY(blob_finish(upload, search->spec->tenant, name, &size));
	search->partial |= changed;
	out->mode = source.stat.mode;
	out->size = (int64_t)size;
	memcpy((char *)out->sha256, name, sizeof(name));
	return OK;
}

// Paths beneath the base are relative.
static const char *artifact_shown(const struct files *files, const char *path)
{
	auto_free char *base = artifacts_absolute("", files->base ? files->base : "/workspace");
	size_t len = strlen(base);

	if (len > 1 && !strncmp(path, base, len) && path[len] == '/')
		return path + len + 1;
	return len == 1 && path[1] ? path + 1 : path;
}

static fallible artifacts_take(struct blobs *blobs, struct artifacts_search *search,
			       const struct artifact *artifact, struct arena *arena,
			       struct artifacts *out)
{
	const char *shown = artifact_shown(search->files, artifact->path);
	struct store_file *file = &out->files[out->count];
	struct err *err = OK;

	*file = (struct store_file){
		.path = {arena_dup(arena, shown, strlen(shown)), strlen(shown)},
		.target = STR(""),
		.mode = artifact->stat.mode,
		.sha256 = "",
	};
	if (artifact->target) {
		size_t len = strlen(artifact->target);

		file->target = (struct str){arena_dup(arena, artifact->target, len), len};
		file->size = (int64_t)len;
	} else {
		uint64_t left = search->spec->max_bytes - out->bytes;

		file->sha256 = arena_take(arena, SHA256_HEX + 1);
		if (artifact->stat.size > left)
			err = err_new(NOT_FOUND, "no_room", "the file is over the cap");
		else
			err = artifact_store(blobs, search, artifact, file);
		if (!err && (uint64_t)file->size > left) { // it grew since it was listed
			blob_release(blobs, search->spec->tenant, file->sha256);
			err = err_new(NOT_FOUND, "no_room", "the file is over the cap");
		}
	}
	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_TIMEOUT &&
	    err_kind(err) != ERR_NO_SPACE)
		return err;
	if (err) {
		search->partial = true;
		err_free(err);
		return OK;
	}
	out->bytes += artifact->target ? 0 : (uint64_t)file->size;
	out->count++;
	return OK;
}

static int artifact_order(const void *a, const void *b)
{
	return strcmp(((const struct artifact *)a)->path, ((const struct artifact *)b)->path);
}

static void artifacts_search_done(struct artifacts_search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		free(search->found[i].path);
		free(search->found[i].target);
	}
	free(search->found);
	map_free(search->paths);
}

void artifacts_release(struct blobs *blobs, const char *tenant, const struct artifacts *artifacts)
{
	for (size_t i = 0; i < artifacts->count; i++)
		if (artifacts->files[i].sha256[0])
			blob_release(blobs, tenant, artifacts->files[i].sha256);
}

fallible artifacts_collect(struct blobs *blobs, const struct files *files,
			   const struct artifacts_spec *spec, struct arena *arena,
			   struct artifacts *out)
{
	on_exit_call(artifacts_search_done) struct artifacts_search search = {
		.files = files, .spec = spec, .paths = map_new()};
	struct artifacts found = {0};
	size_t missing = 0;

	found.missing = arena_take(arena, (ARTIFACTS_GLOBS_MAX + 1) * sizeof(*found.missing));
	for (size_t i = 0; spec->globs && spec->globs[i] && i < ARTIFACTS_GLOBS_MAX && !search.full;
	     i++)
		if (!artifacts_find(&search, spec->globs[i]))
			found.missing[missing++] = arena_dup(arena, spec->globs[i],
							     strlen(spec->globs[i]));
	if (search.cancelled)
		return err_new(CANCELLED, "cancelled", "the collection was cancelled");
	if (search.count)
		qsort(search.found, search.count, sizeof(*search.found), artifact_order);
	found.files = arena_take(arena, (search.count + 1) * sizeof(*found.files));
	for (size_t i = 0; i < search.count; i++) {
		struct err *err = OK;

		if (artifacts_is_late(&search)) {
			search.partial = true;
			break;
		}
		err = artifacts_take(blobs, &search, &search.found[i], arena, &found);
		if (err) {
			artifacts_release(blobs, spec->tenant, &found);
			return err;
		}
	}
	found.partial = search.partial;
	*out = found;
	return OK;
}
