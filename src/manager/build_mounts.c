// Mounts are put in order and undone in reverse. A cache is a tar of the tenant's in the directory
// of builds, unpacked before and packed after the command; a second build that wants it waits. A
// daemon that is killed leaves nothing: the sandbox goes with the build, the old tar stays.
#include "manager/build_mounts.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "loop/closer.h"
#include "manager/build_files.h"
#include "manager/build_source.h"

#define SECRETS_DIR "/run/.cove-secrets"
#define CACHE_WAIT_MS (2 * 3600 * 1000ll)

// What is undone.
struct placed {
	char *path;		   // is removed
	char *aside;		   // is moved to the path; NULL: nothing was there
	struct build_cache *cache; // gets what is at the path; NULL: none
};

struct build_mounts {
	struct build_mounts_ask ask;
	struct placed *at;
	size_t count;
	uint32_t secrets, caches; // so many so far
};

static struct placed *mounts_add(struct build_mounts *mounts, const char *path)
{
	struct placed *placed;

	mounts->at = mem_grow(mounts->at, mounts->count + 1, sizeof(*mounts->at));
	placed = &mounts->at[mounts->count++];
	*placed = (struct placed){.path = mem_str(path)};
	return placed;
}

// Makes room at the target. Its directories are made by what is put there.
static fallible mounts_clear(struct build_mounts *mounts, const char *target, struct placed **out)
{
	const struct files *files = mounts->ask.files;
	struct fileop_stat stat;
	struct err *err = files_stat(files, target, false, &stat);
	auto_free char *aside = NULL;
	char mark[17];

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		*out = mounts_add(mounts, target);
		return OK;
	}
	TRY(err);
	secret_hex(mark, 8);
	aside = mem_fmt("%s.cove-%s", target, mark);
	TRY(files_move(files, target, aside, true), "put aside what is at %s", target);
	*out = mounts_add(mounts, target);
	(*out)->aside = take_ptr(aside);
	return OK;
}

// One file or link.
static fallible mounts_put(struct build_mounts *mounts, struct build_archive *archive,
			   const char *to, const struct build_mount *owner)
{
	char *sources[] = {archive->root, NULL};
	char chown[32] = "", mode[16] = "";
	struct build_copy copy = {.archives = archive,
				  .archive_count = 1,
				  .sources = sources,
				  .count = 1,
				  .to = to,
				  .chown = chown,
				  .chmod = mode};
	uint64_t count;

	snprintf(chown, sizeof(chown), "%u:%u", owner->uid, owner->gid);
	snprintf(mode, sizeof(mode), "0%o", owner->mode == UINT32_MAX ? 0400 : owner->mode);
	return build_copy(mounts->ask.files, &copy, &count);
}

// ----------------------------------------------------------------------------------------- kinds

static fallible mount_secret(struct build_mounts *mounts, const struct build_mount *mount,
			     const char *target)
{
	const char *value = env_map_get(mounts->ask.secrets, str_of(mount->id));
	auto_build_archive file = {.fd = -1}, link = {.fd = -1};
	auto_free char *kept = NULL;
	struct placed *placed = NULL;
	struct manager *manager = mounts->ask.manager;

	if (!value && !mount->required)
		return OK;
	if (!value)
		return err_hint(
			err_new(INVALID, "no_secret", "the build has no secret '%.80s'", mount->id),
			"send it: --secret id=%.80s,src=FILE", mount->id);
	if (mount->env)
		env_map_set(mounts->ask.env, str_of(mount->env), str_of(value));
	if (!target)
		return OK;
	TRY(build_source_file(manager, BUILD_OWN_FILES "secret", str_of(value), &file));
	if (str_starts(str_of(target), "/run/")) {
		TRY(mounts_clear(mounts, target, &placed));
		return mounts_put(mounts, &file, target, mount);
	}
	kept = mem_fmt(SECRETS_DIR "/%u", ++mounts->secrets);
	mounts_add(mounts, kept);
	TRY(mounts_put(mounts, &file, kept, mount));
	TRY(build_source_link(manager, BUILD_OWN_FILES "link", kept, &link));
	TRY(mounts_clear(mounts, target, &placed));
	return mounts_put(mounts, &link, target, mount);
}

static fallible mount_tmpfs(struct build_mounts *mounts, const struct build_mount *mount,
			    const char *target)
{
	struct placed *placed = NULL;

	TRY(mounts_clear(mounts, target, &placed));
	return files_mkdir(mounts->ask.files, target, true,
			   mount->mode == UINT32_MAX ? 01777 : mount->mode);
}

// Who holds one waits for no other, so that two builds never wait for each other: that cache begins
// empty, and is not kept.
static fallible mounts_take_cache(struct build_mounts *mounts, struct str id,
				  struct build_cache **out)
{
	struct manager *manager = mounts->ask.manager;
	int64_t now = loop_now(manager->loop);
	struct err *err = build_cache_take(manager, mounts->ask.who->tenant, id,
					   mounts->caches ? now : now + CACHE_WAIT_MS, out);

	if (err && err_kind(err) == ERR_TIMEOUT && mounts->caches) {
		err_free(err);
		return OK;
	}
	mounts->caches += !err;
	return err;
}

static fallible mount_cache(struct build_mounts *mounts, const struct build_mount *mount,
			    const char *target)
{
	char dot[] = ".", *all[] = {dot, NULL};
	auto_build_archive kept = {.fd = -1};
	struct build_copy copy = {.archives = &kept,
				  .archive_count = 1,
				  .sources = all,
				  .count = 1,
				  .to = target,
				  .keep_owners = true};
	struct placed *placed = NULL;
	uint64_t count;

	TRY(mounts_clear(mounts, target, &placed));
	TRY(files_mkdir(mounts->ask.files, target, true,
			mount->mode == UINT32_MAX ? 0755 : mount->mode));
	TRY(mounts_take_cache(mounts, str_of(mount->id ? mount->id : target), &placed->cache));
	if (placed->cache)
		TRY(build_cache_open(placed->cache, &kept.fd, &kept.bytes));
	return kept.fd < 0 ? OK : build_copy(mounts->ask.files, &copy, &count);
}

static fallible mount_bind(struct build_mounts *mounts, const struct build_mount *mount,
			   const char *target)
{
	struct placed *placed = NULL;

	TRY(mounts_clear(mounts, target, &placed));
	return mounts->ask.bind(mounts->ask.arg, mount, target);
}

static fallible mounts_place(struct build_mounts *mounts, const char *text)
{
	const char *workdir = mounts->ask.workdir;
	auto_build_mount mount = {0};
	auto_free char *target = NULL;

	TRY(build_mount_read(str_of(text), &mount));
	if (mount.target)
		target = mount.target[0] == '/' ? mem_str(mount.target)
						: mem_fmt("%s/%s", workdir, mount.target);
	while (target && str_ends(str_of(target), "/"))
		target[strlen(target) - 1] = '\0';
	switch (mount.type) {
	case BUILD_MOUNT_SECRET:
		return mount_secret(mounts, &mount, target);
	case BUILD_MOUNT_TMPFS:
		return mount_tmpfs(mounts, &mount, target);
	case BUILD_MOUNT_CACHE:
		return mount_cache(mounts, &mount, target);
	case BUILD_MOUNT_BIND:
		return mount_bind(mounts, &mount, target);
	}
	return OK;
}

// -------------------------------------------------------------------------------------------- all

// A cache that cannot be kept is no failure of the build.
static void placed_keep(const struct build_mounts *mounts, struct placed *placed)
{
	auto_build_archive packed = {.fd = -1};
	auto_err err = build_cache_create(placed->cache, &packed.fd);

	if (!err)
		err = build_source_pack(mounts->ask.manager, mounts->ask.who, mounts->ask.files,
					placed->path, &packed);
	if (!err)
		err = build_cache_commit(placed->cache);
	if (err)
		log_event(LOG_WARN, "build.cache_lost", "tenant", mounts->ask.who->tenant, "trail",
			  err_trail(err), NULL);
	build_cache_free(placed->cache);
}

static fallible placed_undo(const struct build_mounts *mounts, struct placed *placed)
{
	const struct files *files = mounts->ask.files;
	struct err *err;

	if (placed->cache)
		placed_keep(mounts, placed);
	err = files_remove(files, placed->path, true);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = OK;
	}
	if (!err && placed->aside)
		err = files_move(files, placed->aside, placed->path, true);
	free(placed->aside);
	free(placed->path);
	return err;
}

fallible build_mounts_end(struct build_mounts *mounts)
{
	struct err *first = OK;

	if (!mounts)
		return OK;
	while (mounts->count) {
		struct err *err = placed_undo(mounts, &mounts->at[--mounts->count]);

		if (first)
			err_free(err);
		else
			first = err;
	}
	free(mounts->at);
	free(mounts);
	return err_while(first, "remove the mounts of a step");
}

fallible build_mounts_begin(const struct build_mounts_ask *ask, char *const *texts,
			    struct build_mounts **out)
{
	struct build_mounts *mounts;
	struct err *err = OK;

	*out = NULL;
	if (!texts || !*texts)
		return OK;
	mounts = mem_new_of(struct build_mounts);
	mounts->ask = *ask;
	for (; !err && *texts; texts++)
		err = mounts_place(mounts, *texts);
	if (err) {
		task_shield(true);
		err_free(build_mounts_end(mounts));
		task_shield(false);
		return err;
	}
	*out = mounts;
	return OK;
}
