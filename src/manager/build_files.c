// Contexts, caches and logs of builds on disk: c-TENANT-SHA256, k-TENANT-SHA256, l-OPERATION, and
// new-TENANT-N while one is being written. All calls of the disk run on worker threads.
//
// syscalls: openat fstat unlinkat renameat2 fsync utimensat pread64
// syscalls: pwrite64 getdents64 close lseek newfstatat
#include "manager/build_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "manager/access.h"
#include "manager/account.h"
#include "manager/pull.h"

#define KEPT_S (24 * 3600)
#define NAME_ROOM 160
#define HASH_ROOM (256 * 1024)
#define CONTEXT "c-"
#define CACHE "k-"
#define LOG "l-"
#define NEW "new-"
#define NEW_HEX 24
#define UPLOADS_MAX 4			 // of a tenant at a time
#define BUILD_CONTEXTS_MAX (40ull << 30) // of a tenant
#define CUT "\n[cove: the rest of the output is not kept]\n"

static fallible files_dir(const struct manager *manager, int *out)
{
	if (!manager->pull)
		return err_new(NOT_OFFERED, "no_builds", "templates cannot be built here");
	*out = manager->pull->builds;
	return OK;
}

static fallible files_explain(int errnum, const char *what)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
	return err_sys(errnum, "%s", what);
}

static void context_name(const char *tenant, struct str digest, char out[NAME_ROOM])
{
	struct str hex = str_skip(digest, strlen("sha256:"));

	snprintf(out, NAME_ROOM, CONTEXT "%s-" STR_FMT, tenant, STR_ARG(hex));
}

// ----------------------------------------------------------------------------------------- upload

struct build_upload {
	struct manager *manager;
	int dir, fd, errnum;
	char temp[NAME_ROOM], name[NAME_ROOM];
	char digest[REFERENCE_DIGEST + 1], found[REFERENCE_DIGEST + 1];
	uint64_t max;
};

static void upload_open(void *arg)
{
	struct build_upload *upload = arg;

	upload->fd = openat(upload->dir, upload->temp,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	upload->errnum = upload->fd < 0 ? errno : 0;
}

// Contexts of a tenant, and those that it sends now.
struct summing {
	int dir;
	const char *kept, *caches, *sent; // prefixes of names
	uint64_t bytes;
	uint32_t uploads;
};

static DIR *files_list(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	return list;
}

// A prefix and so many digits: no tenant's name is taken for the beginning of another's.
static bool is_named(const char *name, const char *prefix, size_t digits)
{
	return str_starts(str_of(name), prefix) && strlen(name) == strlen(prefix) + digits;
}

static void contexts_sum(void *arg)
{
	struct summing *summing = arg;
	DIR *list = files_list(summing->dir);
	struct dirent *entry;
	struct stat st;

	while (list && (entry = readdir(list))) {
		bool is_sent = is_named(entry->d_name, summing->sent, NEW_HEX);

		if ((is_sent || is_named(entry->d_name, summing->kept, SHA256_HEX) ||
		     is_named(entry->d_name, summing->caches, SHA256_HEX)) &&
		    !fstatat(summing->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			summing->bytes += (uint64_t)st.st_size;
			summing->uploads += is_sent;
		}
	}
	if (list)
		closedir(list);
}

fallible build_context_begin(struct manager *manager, const struct who *who, struct str digest,
			     struct build_upload **out)
{
	struct account *account;
	struct build_upload *upload;
	char kept[WHO_TENANT_MAX + 8], caches[WHO_TENANT_MAX + 8], sent[WHO_TENANT_MAX + 8];
	struct summing summing = {.kept = kept, .caches = caches, .sent = sent};
	uint64_t left;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(files_dir(manager, &summing.dir));
	if (!reference_is_digest(digest))
		return err_hint(err_new(INVALID, "bad_digest", "this is not a digest"),
				"sha256: and 64 hex digits, in lower case");
	snprintf(kept, sizeof(kept), CONTEXT "%s-", who->tenant);
	snprintf(caches, sizeof(caches), CACHE "%s-", who->tenant);
	snprintf(sent, sizeof(sent), NEW "%s-", who->tenant);
	offload_run(contexts_sum, &summing);
	if (summing.uploads >= UPLOADS_MAX || summing.bytes >= BUILD_CONTEXTS_MAX)
		return err_hint(err_new(EXHAUSTED, "quota",
					"%llu bytes of contexts are kept, %u are being sent",
					(unsigned long long)summing.bytes, summing.uploads),
				"a context is removed a day after its last use");
	account = accounts_get(&manager->accounts, who->tenant);
	TRY(account_ask_disk(account, summing.bytes + 1));
	left = account_disk_left(account);
	upload = mem_new_of(struct build_upload);
	upload->manager = manager;
	upload->dir = summing.dir;
	upload->max = left == UINT64_MAX ? BUILD_CONTEXT_MAX : left - summing.bytes;
	if (upload->max > BUILD_CONTEXTS_MAX - summing.bytes)
		upload->max = BUILD_CONTEXTS_MAX - summing.bytes;
	if (upload->max > BUILD_CONTEXT_MAX)
		upload->max = BUILD_CONTEXT_MAX;
	memcpy(upload->digest, digest.at, REFERENCE_DIGEST);
	context_name(who->tenant, digest, upload->name);
	memcpy(upload->temp, sent, sizeof(sent));
	secret_hex(upload->temp + strlen(sent), NEW_HEX / 2);
	offload_run(upload_open, upload);
	if (upload->fd < 0) {
		int errnum = upload->errnum;

		free(upload);
		return files_explain(errnum, "make a file for a context");
	}
	*out = upload;
	return OK;
}

int build_upload_fd(const struct build_upload *upload)
{
	return upload->fd;
}

uint64_t build_upload_max(const struct build_upload *upload)
{
	return upload->max;
}

static void upload_hash(void *arg)
{
	struct build_upload *upload = arg;
	auto_free char *room = mem_new(HASH_ROOM);
	struct sha256 hash;
	uint64_t at = 0;
	ssize_t got;

	sha256_begin(&hash);
	while ((got = pread(upload->fd, room, HASH_ROOM, (off_t)at)) > 0) {
		sha256_add(&hash, room, (size_t)got);
		at += (uint64_t)got;
	}
	upload->errnum = got < 0 ? errno : 0;
	memcpy(upload->found, "sha256:", 7);
	sha256_end(&hash, upload->found + 7);
}

static void upload_name(void *arg)
{
	struct build_upload *upload = arg;

	if (fsync(upload->fd) ||
	    renameat2(upload->dir, upload->temp, upload->dir, upload->name, 0) ||
	    fsync(upload->dir))
		upload->errnum = errno;
}

static void upload_unlink(void *arg)
{
	struct build_upload *upload = arg;

	unlinkat(upload->dir, upload->temp, 0);
}

void build_context_abort(struct build_upload *upload)
{
	if (!upload)
		return;
	offload_run(upload_unlink, upload);
	closer_drop(&upload->fd);
	free(upload);
}

fallible build_context_keep(struct build_upload *upload)
{
	struct err *err = OK;

	offload_run(upload_name, upload);
	if (upload->errnum)
		err = files_explain(upload->errnum, "keep a context");
	build_context_abort(upload);
	return err;
}

fallible build_context_end(struct build_upload *upload)
{
	struct err *err = OK;

	offload_run(upload_hash, upload);
	if (!upload->errnum && strcmp(upload->found, upload->digest) != 0)
		err = err_new(INVALID, "digest_mismatch", "the body has the digest %s",
			      upload->found);
	kill_point("daemon.build_context", "hashed");
	if (!err && !upload->errnum)
		offload_run(upload_name, upload);
	if (!err && upload->errnum)
		err = files_explain(upload->errnum, "keep a context");
	build_context_abort(upload);
	return err;
}

// ----------------------------------------------------------------------------------------- reading

struct context_open {
	int dir, fd, errnum;
	char name[NAME_ROOM];
	struct stat st;
};

static void context_open_run(void *arg)
{
	struct context_open *open = arg;

	open->fd = openat(open->dir, open->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	open->errnum = errno;
	if (open->fd < 0)
		return;
	if (fstat(open->fd, &open->st) || utimensat(open->dir, open->name, NULL, 0))
		open->errnum = errno;
}

fallible build_context_open(struct manager *manager, const char *tenant, struct str digest,
			    int *out_fd, uint64_t *out_bytes)
{
	struct context_open open = {.fd = -1};

	TRY(files_dir(manager, &open.dir));
	if (!reference_is_digest(digest))
		return err_hint(err_new(INVALID, "bad_digest", "this is not a digest"),
				"sha256: and 64 hex digits, in lower case");
	context_name(tenant, digest, open.name);
	offload_run(context_open_run, &open);
	if (open.fd < 0 && open.errnum == ENOENT)
		return err_hint(
			err_new(NOT_FOUND, "no_blob", "there is no blob " STR_FMT, STR_ARG(digest)),
			"send it by PUT /v1/blobs/" STR_FMT, STR_ARG(digest));
	if (open.fd < 0)
		return files_explain(open.errnum, "open a context");
	*out_fd = open.fd;
	*out_bytes = (uint64_t)open.st.st_size;
	return OK;
}

// ------------------------------------------------------------------------------------------ caches

struct build_cache {
	struct manager *manager;
	int dir, errnum;
	char name[NAME_ROOM], temp[NAME_ROOM];
	bool has_temp;
};

fallible build_cache_take(struct manager *manager, const char *tenant, struct str id,
			  int64_t deadline, struct build_cache **out)
{
	struct build_cache *cache;
	char hex[SHA256_HEX + 1];
	struct sha256 hash;
	int dir = -1;

	TRY(files_dir(manager, &dir));
	sha256_begin(&hash);
	sha256_add(&hash, id.at, id.len);
	sha256_end(&hash, hex);
	cache = mem_new_of(struct build_cache);
	*cache = (struct build_cache){.manager = manager, .dir = dir};
	snprintf(cache->name, sizeof(cache->name), CACHE "%s-%s", tenant, hex);
	snprintf(cache->temp, sizeof(cache->temp), NEW "%s-", tenant);
	secret_hex(cache->temp + strlen(cache->temp), NEW_HEX / 2);
	while (!map_put(manager->build_caches, str_of(cache->name), cache)) {
		struct err *err = condition_wait(&manager->build_cache_freed, deadline);

		if (err) {
			free(cache);
			return err_while(err, "wait for a cache that another build uses");
		}
	}
	*out = cache;
	return OK;
}

fallible build_cache_open(struct build_cache *cache, int *out_fd, uint64_t *out_bytes)
{
	struct context_open open = {.dir = cache->dir, .fd = -1};

	memcpy(open.name, cache->name, sizeof(open.name));
	offload_run(context_open_run, &open);
	if (open.fd < 0 && open.errnum != ENOENT)
		return files_explain(open.errnum, "open a cache");
	*out_fd = open.fd;
	*out_bytes = open.fd < 0 ? 0 : (uint64_t)open.st.st_size;
	return OK;
}

static void cache_create_run(void *arg)
{
	struct context_open *open = arg;

	open->fd = openat(open->dir, open->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			  0600);
	open->errnum = errno;
}

fallible build_cache_create(struct build_cache *cache, int *out_fd)
{
	struct context_open open = {.dir = cache->dir, .fd = -1};

	memcpy(open.name, cache->temp, sizeof(open.name));
	offload_run(cache_create_run, &open);
	if (open.fd < 0)
		return files_explain(open.errnum, "make a cache");
	cache->has_temp = true;
	*out_fd = open.fd;
	return OK;
}

static void cache_rename_run(void *arg)
{
	struct build_cache *cache = arg;

	cache->errnum = renameat2(cache->dir, cache->temp, cache->dir, cache->name, 0) ? errno : 0;
}

fallible build_cache_commit(struct build_cache *cache)
{
	kill_point("daemon.build", "cache");
	offload_run(cache_rename_run, cache);
	cache->has_temp = cache->errnum != 0;
	return cache->errnum ? files_explain(cache->errnum, "keep a cache") : OK;
}

static void cache_unlink_run(void *arg)
{
	struct build_cache *cache = arg;

	unlinkat(cache->dir, cache->temp, 0);
}

void build_cache_free(struct build_cache *cache)
{
	struct manager *manager = cache->manager;

	if (cache->has_temp)
		offload_run(cache_unlink_run, cache);
	map_take(manager->build_caches, str_of(cache->name));
	condition_signal(&manager->build_cache_freed);
	free(cache);
}

struct caches_prune {
	int dir;
	const char *prefix;
	time_t before;
	char (*names)[NAME_ROOM];
	size_t count;
};

static void caches_find_run(void *arg)
{
	struct caches_prune *prune = arg;
	DIR *list = files_list(prune->dir);
	struct dirent *entry;
	struct stat st;

	while (list && (entry = readdir(list))) {
		if (!is_named(entry->d_name, prune->prefix, SHA256_HEX) ||
		    fstatat(prune->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    st.st_mtime > prune->before)
			continue;
		prune->names = mem_grow(prune->names, prune->count + 1, NAME_ROOM);
		snprintf(prune->names[prune->count++], NAME_ROOM, "%.*s", NAME_ROOM - 1,
			 entry->d_name);
	}
	if (list)
		closedir(list);
}

static void caches_remove_run(void *arg)
{
	struct caches_prune *prune = arg;

	for (size_t i = 0; i < prune->count; i++)
		if (prune->names[i][0])
			unlinkat(prune->dir, prune->names[i], 0);
}

void build_caches_prune(struct manager *manager, const char *tenant, int64_t unused_ms)
{
	char prefix[WHO_TENANT_MAX + 8];
	struct caches_prune prune = {.prefix = prefix,
				     .before = (time_t)((clock_wall_ms() - unused_ms) / 1000)};
	auto_err none = files_dir(manager, &prune.dir);

	if (none)
		return;
	snprintf(prefix, sizeof(prefix), CACHE "%s-", tenant);
	offload_run(caches_find_run, &prune);
	for (size_t i = 0; i < prune.count; i++)
		if (map_get(manager->build_caches, str_of(prune.names[i])))
			prune.names[i][0] = '\0';
	offload_run(caches_remove_run, &prune);
	free(prune.names);
}

// -------------------------------------------------------------------------------------------- logs

static void log_name(const struct operation *operation, char out[NAME_ROOM])
{
	snprintf(out, NAME_ROOM, LOG "%s", operation->id);
}

static void log_open_run(void *arg)
{
	struct context_open *open = arg;

	open->fd = openat(open->dir, open->name,
			  O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	open->errnum = errno;
}

fallible build_log_create(struct manager *manager, const struct operation *operation, int *out_fd)
{
	struct context_open open = {.fd = -1};

	TRY(files_dir(manager, &open.dir));
	log_name(operation, open.name);
	offload_run(log_open_run, &open);
	if (open.fd < 0)
		return files_explain(open.errnum, "make the log of a build");
	*out_fd = open.fd;
	return OK;
}

struct log_io {
	int fd;
	uint64_t at;
	void *room;
	size_t size;
	ssize_t got;
};

static void log_write_run(void *arg)
{
	struct log_io *io = arg;

	io->got = pwrite(io->fd, io->room, io->size, (off_t)io->at);
}

// A log that cannot be written does not end the build: the daemon's own log has it.
void build_log_write(int fd, struct operation *operation, struct str text)
{
	struct log_io io = {.fd = fd, .at = operation->log_bytes};

	if (operation->log_cut)
		return;
	operation->log_cut = operation->log_bytes + text.len > BUILD_LOG_MAX;
	if (operation->log_cut)
		text = STR(CUT);
	io.room = (void *)text.at;
	io.size = text.len;
	offload_run(log_write_run, &io);
	if (io.got != (ssize_t)text.len)
		log_event(LOG_WARN, "build.log_lost", "operation", operation->id, NULL);
	operation->log_bytes += text.len;
	operation_changed(operation);
}

static void log_read_run(void *arg)
{
	struct log_io *io = arg;

	io->got = pread(io->fd, io->room, io->size, (off_t)io->at);
}

fallible build_log_read(struct manager *manager, const struct operation *operation, uint64_t offset,
			void *room, size_t size, size_t *out)
{
	struct context_open open = {.fd = -1};
	struct log_io io = {.at = offset, .room = room, .size = size};
	uint64_t left = operation->log_bytes > offset ? operation->log_bytes - offset : 0;

	*out = 0;
	if (!left)
		return OK;
	if (io.size > left)
		io.size = (size_t)left;
	TRY(files_dir(manager, &open.dir));
	log_name(operation, open.name);
	offload_run(context_open_run, &open);
	auto_closer_fd fd = open.fd;

	if (fd < 0)
		return open.errnum == ENOENT ? OK : files_explain(open.errnum, "open a log");
	io.fd = fd;
	offload_run(log_read_run, &io);
	if (io.got < 0)
		return err_sys(EIO, "read the log of a build");
	*out = (size_t)io.got;
	return OK;
}

// ------------------------------------------------------------------------------------------- prune

struct pruning {
	int dir;
	bool first;
	time_t before;
};

static void files_prune_run(void *arg)
{
	const struct pruning *pruning = arg;
	DIR *list = files_list(pruning->dir);
	struct dirent *entry;
	struct stat st;

	while (list && (entry = readdir(list))) {
		struct str name = str_of(entry->d_name);

		if (entry->d_name[0] == '.' ||
		    fstatat(pruning->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (st.st_mtime < pruning->before || (pruning->first && str_starts(name, NEW)))
			unlinkat(pruning->dir, entry->d_name, 0);
	}
	if (list)
		closedir(list);
}

void build_files_prune(struct manager *manager, bool first)
{
	struct pruning pruning = {.first = first,
				  .before = (time_t)(clock_wall_ms() / 1000 - KEPT_S)};
	auto_err none = files_dir(manager, &pruning.dir);

	if (!none)
		offload_run(files_prune_run, &pruning);
}
