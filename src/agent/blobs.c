// Blobs on disk: DIR/t-TENANT/SHA256, and DIR/new/N while they are written. One lock, for tasks,
// orders what names files and what removes them, so that a file that was found equal is not removed
// under its new owner. All calls of the disk run on worker threads.
//
// syscalls: openat mkdirat renameat2 unlinkat fsync fstat newfstatat getdents64 pread64 close fcntl
// syscalls: lseek
#include "agent/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "loop/pump.h"
#include "types/who.h"

#define BLOCK 4096
#define NEW "new"
#define NEW_BYTES 12 // of a random name
#define PREFIX "t-"
#define HASH_SLICE (8ull << 20)
#define HASH_ROOM (256u << 10)
#define SWEEP_BATCH 500
#define LEFT_WITHOUT_BUDGET UINT64_MAX

struct blob_tenant {
	struct tape_budget *budget;
	struct tape_quota *quota; // NULL: none
};

struct blobs {
	struct blobs_options options;
	struct map *tenants; // name -> struct blob_tenant
	struct map *held;    // path -> count, as a pointer
	uint64_t bytes;
	bool locked;
	bool sweeping; // no file is begun meanwhile
	struct condition unlocked;
};

struct blob_upload {
	struct blobs *blobs;
	int fd;
	char name[sizeof(NEW) + 2 * NEW_BYTES + 1];
};

static uint64_t blob_blocks(uint64_t size)
{
	return (size + BLOCK - 1) / BLOCK * BLOCK;
}

struct blobs *blobs_new(const struct blobs_options *options)
{
	struct blobs *blobs = mem_new_of(struct blobs);

	blobs->options = *options;
	blobs->tenants = map_new();
	blobs->held = map_new();
	condition_init(&blobs->unlocked);
	return blobs;
}

void blobs_free(struct blobs *blobs)
{
	struct str name;
	size_t at = 0;
	void *value;

	while (map_next(blobs->tenants, &at, &name, &value)) {
		tape_budget_drop(((struct blob_tenant *)value)->budget);
		free(value);
	}
	map_free(blobs->tenants);
	map_free(blobs->held);
	free(blobs);
}

static struct blob_tenant *blob_tenant_of(struct blobs *blobs, const char *name)
{
	struct blob_tenant *tenant = map_get(blobs->tenants, str_of(name));

	if (tenant)
		return tenant;
	tenant = mem_new_of(struct blob_tenant);
	tenant->budget = tape_budget_new(UINT64_MAX);
	if (blobs->options.output_of)
		tenant->quota = blobs->options.output_of(blobs->options.output_arg, name);
	tape_budget_set(tenant->budget, UINT64_MAX, 0, tenant->quota);
	map_put(blobs->tenants, str_of(name), tenant);
	return tenant;
}

static void blob_charge(struct blobs *blobs, const char *tenant, uint64_t size)
{
	tape_budget_charge(blob_tenant_of(blobs, tenant)->budget, blob_blocks(size));
	blobs->bytes += blob_blocks(size);
}

static void blob_refund(struct blobs *blobs, const char *tenant, uint64_t size)
{
	tape_budget_refund(blob_tenant_of(blobs, tenant)->budget, blob_blocks(size));
	blobs->bytes -= blob_blocks(size) < blobs->bytes ? blob_blocks(size) : blobs->bytes;
}

uint64_t blobs_bytes(const struct blobs *blobs)
{
	return blobs->bytes;
}

uint64_t blobs_left(struct blobs *blobs, const char *tenant)
{
	const struct tape_quota *quota = blob_tenant_of(blobs, tenant)->quota;

	return quota && quota->left ? quota->left(quota) : LEFT_WITHOUT_BUDGET;
}

char *blob_path(const char *tenant, const char *name)
{
	return mem_fmt(PREFIX "%s/%s", tenant, name);
}

int blobs_dir(const struct blobs *blobs)
{
	return blobs->options.dir;
}

static void blobs_lock(struct blobs *blobs)
{
	while (blobs->locked)
		condition_await(&blobs->unlocked);
	blobs->locked = true;
}

static void blobs_unlock(struct blobs *blobs)
{
	blobs->locked = false;
	condition_signal(&blobs->unlocked);
}

void blob_hold(struct blobs *blobs, const char *tenant, const char *name)
{
	auto_free char *path = blob_path(tenant, name);
	uintptr_t count = (uintptr_t)map_take(blobs->held, str_of(path));

	map_put(blobs->held, str_of(path), (void *)(count + 1));
}

static bool blob_is_held(const struct blobs *blobs, const char *tenant, const char *name)
{
	auto_free char *path = blob_path(tenant, name);

	return map_get(blobs->held, str_of(path)) != NULL;
}

void blob_release(struct blobs *blobs, const char *tenant, const char *name)
{
	auto_free char *path = blob_path(tenant, name);
	uintptr_t count = (uintptr_t)map_take(blobs->held, str_of(path));

	if (count > 1)
		map_put(blobs->held, str_of(path), (void *)(count - 1));
}

// -------------------------------------------------------------------------------- upload

struct blob_making {
	int dir, fd, errnum;
	const char *name;
	bool make;
};

static void blob_make(void *arg)
{
	struct blob_making *making = arg;

	if (mkdirat(making->dir, NEW, 0700) && errno != EEXIST)
		making->errnum = errno;
	else if (making->make)
		making->fd = openat(making->dir, making->name,
				    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (making->make && !making->errnum && making->fd < 0)
		making->errnum = errno;
}

fallible blob_begin(struct blobs *blobs, bool make, struct blob_upload **out)
{
	struct blob_upload *upload = mem_new_of(struct blob_upload);
	struct blob_making making = {.dir = blobs->options.dir, .fd = -1, .make = make};

	while (blobs->sweeping)
		condition_await(&blobs->unlocked);
	upload->blobs = blobs;
	memcpy(upload->name, NEW "/", sizeof(NEW));
	secret_hex(upload->name + sizeof(NEW), NEW_BYTES);
	making.name = upload->name;
	offload_run(blob_make, &making);
	upload->fd = making.fd;
	if (making.errnum) {
		free(upload);
		return pump_explain(making.errnum, "make a blob");
	}
	*out = upload;
	return OK;
}

int blob_fd(const struct blob_upload *upload)
{
	return upload->fd;
}

const char *blob_name(const struct blob_upload *upload)
{
	return upload->name;
}

struct blob_unlinking {
	int dir;
	const char *name;
	int *fd;
};

static void blob_unlink(void *arg)
{
	struct blob_unlinking *unlinking = arg;

	unlinkat(unlinking->dir, unlinking->name, 0);
	if (*unlinking->fd >= 0)
		close(take_fd(unlinking->fd));
}

void blob_abort(struct blob_upload *upload)
{
	if (!upload)
		return;
	offload_run(blob_unlink, &(struct blob_unlinking){upload->blobs->options.dir, upload->name,
							  &upload->fd});
	free(upload);
}

// Hashes the next slice of the file.
struct blob_hashing {
	int fd;
	uint64_t at;
	struct sha256 hash;
	bool ended;
	int errnum;
};

static void blob_hash(void *arg)
{
	struct blob_hashing *hashing = arg;
	auto_free char *room = mem_new(HASH_ROOM);
	uint64_t until = hashing->at + HASH_SLICE;
	ssize_t n = 1;

	while (n > 0 && hashing->at < until) {
		n = pread(hashing->fd, room, HASH_ROOM, (off_t)hashing->at);
		if (n < 0 && errno == EINTR) {
			n = 1;
			continue;
		}
		if (n > 0) {
			sha256_add(&hashing->hash, room, (size_t)n);
			hashing->at += (uint64_t)n;
		}
	}
	hashing->ended = n == 0;
	hashing->errnum = n < 0 ? errno : 0;
}

// Opens the file that somebody else wrote, or takes the upload's.
struct blob_naming {
	int dir, fd, errnum;
	const char *from, *folder, *path;
	bool existed;
};

static void blob_reopen(void *arg)
{
	struct blob_naming *naming = arg;

	naming->fd = openat(naming->dir, naming->from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	naming->errnum = naming->fd < 0 ? errno : 0;
}

static void blob_sync(void *arg)
{
	struct blob_naming *naming = arg;

	naming->errnum = fsync(naming->fd) ? errno : 0;
	kill_point("daemon.blob", "synced");
}

static int blob_sync_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int errnum = fd < 0 || fsync(fd) ? errno : 0;

	if (fd >= 0)
		close(fd);
	return errnum;
}

static void blob_rename(void *arg)
{
	struct blob_naming *naming = arg;
	int again = 0;

	while (renameat2(naming->dir, naming->from, naming->dir, naming->path, RENAME_NOREPLACE)) {
		if (errno == EEXIST) {
			naming->existed = true;
			unlinkat(naming->dir, naming->from, 0);
			break;
		}
		if (errno != ENOENT || again++ ||
		    (mkdirat(naming->dir, naming->folder, 0700) && errno != EEXIST)) {
			naming->errnum = errno;
			return;
		}
		naming->errnum = blob_sync_dir(naming->dir, ".");
		if (naming->errnum)
			return;
	}
	kill_point("daemon.blob", "named");
	naming->errnum = blob_sync_dir(naming->dir, naming->folder);
}

static fallible blob_hash_file(int fd, char out[SHA256_HEX + 1], uint64_t *out_bytes)
{
	struct blob_hashing hashing = {.fd = fd};

	sha256_begin(&hashing.hash);
	while (!hashing.ended) {
		offload_run(blob_hash, &hashing);
		if (hashing.errnum)
			return err_sys(hashing.errnum, "hash a blob");
	}
	sha256_end(&hashing.hash, out);
	*out_bytes = hashing.at;
	return OK;
}

static fallible blob_settle(struct blob_upload *upload, const char *tenant,
			    char out[SHA256_HEX + 1], uint64_t *out_bytes)
{
	struct blobs *blobs = upload->blobs;
	struct blob_naming naming = {.dir = blobs->options.dir, .from = upload->name};
	char folder[WHO_TENANT_MAX + 8];
	auto_free char *path = NULL;

	if (upload->fd < 0) {
		offload_run(blob_reopen, &naming);
		upload->fd = naming.fd;
		if (naming.errnum)
			return err_sys(naming.errnum, "open a new blob");
	}
	TRY(blob_hash_file(upload->fd, out, out_bytes));
	naming.fd = upload->fd;
	offload_run(blob_sync, &naming);
	if (naming.errnum)
		return pump_explain(naming.errnum, "sync a blob");
	snprintf(folder, sizeof(folder), PREFIX "%s", tenant);
	path = blob_path(tenant, out);
	naming.folder = folder;
	naming.path = path;
	blobs_lock(blobs);
	offload_run(blob_rename, &naming);
	if (!naming.errnum)
		blob_hold(blobs, tenant, out);
	blobs_unlock(blobs);
	if (naming.errnum)
		return pump_explain(naming.errnum, "name a blob");
	if (!naming.existed)
		blob_charge(blobs, tenant, *out_bytes);
	return OK;
}

fallible blob_finish(struct blob_upload *upload, const char *tenant, char out[SHA256_HEX + 1],
		     uint64_t *out_bytes)
{
	struct err *err = blob_settle(upload, tenant, out, out_bytes);

	if (err) {
		blob_abort(upload);
		return err;
	}
	closer_drop(&upload->fd);
	free(upload);
	return OK;
}

struct blob_opening {
	int dir, fd, errnum;
	const char *path;
};

static void blob_open_path(void *arg)
{
	struct blob_opening *opening = arg;

	opening->fd = openat(opening->dir, opening->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	opening->errnum = opening->fd < 0 ? errno : 0;
}

fallible blob_open(struct blobs *blobs, const char *tenant, const char *name, int *out_fd)
{
	auto_free char *path = blob_path(tenant, name);
	struct blob_opening opening = {.dir = blobs->options.dir, .path = path};

	offload_run(blob_open_path, &opening);
	if (opening.errnum == ENOENT)
		return err_new(NOT_FOUND, "no_blob", "the stored content is gone");
	if (opening.errnum)
		return err_sys(opening.errnum, "open a blob");
	*out_fd = opening.fd;
	return OK;
}

// ------------------------------------------------------------------------------- removal

struct blob_removing {
	int dir;
	const char *path;
	uint64_t size;
	bool removed;
};

static void blob_remove(void *arg)
{
	struct blob_removing *removing = arg;
	struct stat st;

	removing->removed = !fstatat(removing->dir, removing->path, &st, AT_SYMLINK_NOFOLLOW) &&
			    !unlinkat(removing->dir, removing->path, 0);
	if (removing->removed)
		removing->size = (uint64_t)st.st_size;
	kill_point("daemon.blob", "removed");
}

// Holders are asked before the store: a blob that nobody holds now can get a new owner only through
// the lock.
static void blobs_collect_locked(struct blobs *blobs, struct store_blob *candidates, size_t count)
{
	size_t kept = 0;
	auto_err err = NULL;

	for (size_t i = 0; i < count; i++)
		if (!blob_is_held(blobs, candidates[i].tenant, candidates[i].name))
			candidates[kept++] = candidates[i];
	err = kept ? store_results_look(blobs->options.store, candidates, kept) : OK;
	if (err) {
		log_event(LOG_WARN, "results.blobs_kept", "trail", err_trail(err), NULL);
		return;
	}
	for (size_t i = 0; i < kept; i++) {
		struct blob_removing removing = {.dir = blobs->options.dir};
		auto_free char *path = NULL;

		if (candidates[i].used)
			continue;
		path = blob_path(candidates[i].tenant, candidates[i].name);
		removing.path = path;
		offload_run(blob_remove, &removing);
		if (removing.removed)
			blob_refund(blobs, candidates[i].tenant, removing.size);
	}
}

void blobs_collect(struct blobs *blobs, struct store_blob *candidates, size_t count)
{
	for (size_t i = 0; i < count; i += SWEEP_BATCH) {
		size_t some = count - i < SWEEP_BATCH ? count - i : SWEEP_BATCH;

		blobs_lock(blobs);
		blobs_collect_locked(blobs, candidates + i, some);
		blobs_unlock(blobs);
	}
}

// --------------------------------------------------------------------------------- sweep

// Some names of a folder, with their sizes.
struct blob_listing {
	int dir;
	const char *folder;
	DIR *list;
	bool ended;
	bool folders; // of the directory itself
	size_t count;
	struct {
		char name[SHA256_HEX + 1];
		uint64_t size;
	} items[SWEEP_BATCH];
};

static void blob_listing_open(struct blob_listing *listing)
{
	int fd = openat(listing->dir, listing->folder,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	listing->list = fd >= 0 ? fdopendir(fd) : NULL;
	if (fd >= 0 && !listing->list)
		close(fd);
	listing->ended = !listing->list;
}

static void blob_listing_run(void *arg)
{
	struct blob_listing *listing = arg;
	struct dirent *entry = NULL;
	struct stat st;

	listing->count = 0;
	if (!listing->list)
		blob_listing_open(listing);
	while (listing->list && listing->count < SWEEP_BATCH && (entry = readdir(listing->list))) {
		if (entry->d_name[0] == '.' || strlen(entry->d_name) > SHA256_HEX ||
		    fstatat(dirfd(listing->list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    S_ISDIR(st.st_mode) != listing->folders)
			continue;
		memcpy(listing->items[listing->count].name, entry->d_name,
		       strlen(entry->d_name) + 1);
		listing->items[listing->count++].size = (uint64_t)st.st_size;
	}
	if (entry)
		return;
	listing->ended = true;
	if (listing->list)
		closedir(take_ptr(listing->list));
}

static void blobs_sweep_new(struct blobs *blobs, const struct blob_listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		char name[SHA256_HEX + 8];

		snprintf(name, sizeof(name), NEW "/%s", listing->items[i].name);
		offload_run(blob_remove,
			    &(struct blob_removing){.dir = blobs->options.dir, .path = name});
	}
}

static void blobs_sweep_tenant(struct blobs *blobs, const struct blob_listing *listing)
{
	const char *tenant = listing->folder + strlen(PREFIX);
	auto_free struct store_blob *found = mem_new((listing->count + 1) * sizeof(*found));

	for (size_t i = 0; i < listing->count; i++) {
		found[i] = (struct store_blob){.tenant = tenant, .name = listing->items[i].name};
		blob_charge(blobs, tenant, listing->items[i].size);
	}
	blobs_collect(blobs, found, listing->count);
}

static void blobs_sweep_folder(struct blobs *blobs, const char *name)
{
	auto_free struct blob_listing *listing = mem_new_of(struct blob_listing);

	listing->dir = blobs->options.dir;
	listing->folder = name;
	while (!listing->ended) {
		offload_run(blob_listing_run, listing);
		if (!strcmp(name, NEW))
			blobs_sweep_new(blobs, listing);
		else if (str_starts(str_of(name), PREFIX))
			blobs_sweep_tenant(blobs, listing);
	}
}

void blobs_sweep(struct blobs *blobs)
{
	auto_free struct blob_listing *listing = mem_new_of(struct blob_listing);

	blobs->sweeping = true;
	listing->dir = blobs->options.dir;
	listing->folder = ".";
	listing->folders = true;
	while (!listing->ended) {
		offload_run(blob_listing_run, listing);
		for (size_t i = 0; i < listing->count; i++)
			blobs_sweep_folder(blobs, listing->items[i].name);
	}
	blobs->sweeping = false;
	condition_signal(&blobs->unlocked);
}
