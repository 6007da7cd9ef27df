// btrfs by ioctl: subvolumes, simple quotas, resize, balance. The argument structs are 4 KiB, so
// they are on the heap. Errors that mean "already done" or "not yet" are not reported.
#include "os/btrfs.h"

#include <endian.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/auto.h"
#include "base/mem.h"

// Newer than the headers of Debian 12.
#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4
#endif

#define WALK_SIZE 65536
#define ONE_SIZE 256 // a search for one item: its header and a qgroup info

static int name_call(int dir, unsigned long call, const char *name)
{
	auto_free struct btrfs_ioctl_vol_args *args = mem_new_of(struct btrfs_ioctl_vol_args);

	if (strlen(name) > BTRFS_VOL_NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(args->name, name, strlen(name));
	return ioctl(dir, call, args);
}

fallible btrfs_make(int dir, const char *name)
{
	if (name_call(dir, BTRFS_IOC_SUBVOL_CREATE, name) == 0)
		return OK;
	if (errno == ENOSPC)
		return err_new(NO_SPACE, "disk_full", "the pool of the boxes' disks is full");
	return err_sys(errno, "make the subvolume '%s'", name);
}

fallible btrfs_drop(int dir, const char *name)
{
	if (name_call(dir, BTRFS_IOC_SNAP_DESTROY, name) && errno != ENOENT)
		return err_sys(errno, "drop the subvolume '%s'", name);
	return OK;
}

fallible btrfs_snapshot(int dir, int from, const char *name, bool read_only)
{
	auto_free struct btrfs_ioctl_vol_args_v2 *args = mem_new_of(struct btrfs_ioctl_vol_args_v2);

	args->fd = from;
	args->flags = read_only ? BTRFS_SUBVOL_RDONLY : 0;
	snprintf(args->name, sizeof(args->name), "%s", name);
	if (ioctl(dir, BTRFS_IOC_SNAP_CREATE_V2, args) == 0)
		return OK;
	if (errno == ENOSPC || errno == EDQUOT)
		return err_hint(
			err_new(NO_SPACE, "disk_full", "the pool of the boxes' disks is full"),
			"delete sandboxes or snapshots, or raise --pool-max");
	return err_sys(errno, "make the snapshot '%s'", name);
}

fallible btrfs_id(int subvolume, uint64_t *out)
{
	auto_free struct btrfs_ioctl_ino_lookup_args *args = mem_new_of(
		struct btrfs_ioctl_ino_lookup_args);

	args->objectid = BTRFS_FIRST_FREE_OBJECTID;
	if (ioctl(subvolume, BTRFS_IOC_INO_LOOKUP, args))
		return err_sys(errno, "ask a subvolume for its id");
	*out = args->treeid;
	return OK;
}

fallible btrfs_quota_on(int fs)
{
	struct btrfs_ioctl_quota_ctl_args args = {.cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA};

	if (ioctl(fs, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
		return OK;
	if (errno == EINVAL || errno == EOPNOTSUPP || errno == ENOTTY)
		return err_hint(err_new(NOT_OFFERED, "no_simple_quota",
					"this kernel's btrfs has no simple quotas"),
				"Linux 6.7 has them");
	return err_sys(errno, "turn simple quotas on");
}

fallible btrfs_quota_limit(int fs, uint64_t id, uint64_t bytes)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.qgroupid = id,
		.lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes},
	};

	if (ioctl(fs, BTRFS_IOC_QGROUP_LIMIT, &args))
		return err_sys(errno, "limit a subvolume");
	return OK;
}

void btrfs_quota_forget(int fs, uint64_t id)
{
	struct btrfs_ioctl_qgroup_create_args args = {.create = 0, .qgroupid = id};

	// EBUSY: not yet. ENOENT: newer kernels remove it themselves.
	(void)ioctl(fs, BTRFS_IOC_QGROUP_CREATE, &args);
}

// Walks the result of one search. Returns where the next must begin, 0 at the end.
static uint64_t btrfs_read_page(const struct btrfs_ioctl_search_args_v2 *args,
				void (*each)(void *, uint64_t, uint64_t), void *arg)
{
	const char *at = (const char *)args->buf;
	uint64_t next = 0;

	for (uint32_t i = 0; i < args->key.nr_items; i++) {
		struct btrfs_ioctl_search_header head;
		struct btrfs_qgroup_info_item info;

		memcpy(&head, at, sizeof(head));
		at += sizeof(head);
		if (head.type == BTRFS_QGROUP_INFO_KEY && head.len >= sizeof(info)) {
			memcpy(&info, at, sizeof(info));
			each(arg, head.offset, le64toh(info.rfer));
		}
		at += head.len;
		next = head.offset + 1;
	}
	return next;
}

static void keep_used(void *arg, uint64_t id, uint64_t used)
{
	(void)id;
	*(uint64_t *)arg = used;
}

bool btrfs_quota_used(int fs, uint64_t id, uint64_t *out)
{
	auto_free struct btrfs_ioctl_search_args_v2 *args = mem_new(sizeof(*args) + ONE_SIZE);

	args->key = (struct btrfs_ioctl_search_key){
		.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
		.min_type = BTRFS_QGROUP_INFO_KEY,
		.max_type = BTRFS_QGROUP_INFO_KEY,
		.min_offset = id,
		.max_offset = id,
		.max_transid = UINT64_MAX,
		.nr_items = 1,
	};
	args->buf_size = ONE_SIZE;
	return ioctl(fs, BTRFS_IOC_TREE_SEARCH_V2, args) == 0 &&
	       btrfs_read_page(args, keep_used, out);
}

fallible btrfs_quota_walk(int fs, void (*each)(void *arg, uint64_t id, uint64_t used), void *arg)
{
	auto_free struct btrfs_ioctl_search_args_v2 *args = mem_new(sizeof(*args) + WALK_SIZE);
	uint64_t from = BTRFS_FIRST_FREE_OBJECTID;

	while (from) {
		args->key = (struct btrfs_ioctl_search_key){
			.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
			.min_type = BTRFS_QGROUP_INFO_KEY,
			.max_type = BTRFS_QGROUP_INFO_KEY,
			.min_offset = from,
			.max_offset = (1ull << 48) - 1, // level 0: groups of subvolumes
			.max_transid = UINT64_MAX,
			.nr_items = UINT32_MAX,
		};
		args->buf_size = WALK_SIZE;
		if (ioctl(fs, BTRFS_IOC_TREE_SEARCH_V2, args))
			return err_sys(errno, "read the quota tree");
		from = btrfs_read_page(args, each, arg);
	}
	return OK;
}

// The kernel answers with a number above 0 while another balance or resize runs.
static fallible btrfs_resize(int fs, const char *to)
{
	int code = name_call(fs, BTRFS_IOC_RESIZE, to);

	if (code)
		return err_sys(code > 0 ? EBUSY : errno, "resize the pool's file system to %s", to);
	return OK;
}

fallible btrfs_grow(int fs)
{
	return btrfs_resize(fs, "max");
}

fallible btrfs_shrink(int fs, uint64_t bytes)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return btrfs_resize(fs, text);
}

fallible btrfs_measure(int fs, struct btrfs_space *out)
{
	auto_free struct btrfs_ioctl_dev_info_args *args = mem_new_of(
		struct btrfs_ioctl_dev_info_args);

	args->devid = 1;
	if (ioctl(fs, BTRFS_IOC_DEV_INFO, args))
		return err_sys(errno, "measure the pool's file system");
	*out = (struct btrfs_space){.size = args->total_bytes, .chunks = args->bytes_used};
	return OK;
}

fallible btrfs_compact(int fs, unsigned int percent)
{
	auto_free struct btrfs_ioctl_balance_args *args = mem_new_of(
		struct btrfs_ioctl_balance_args);
	int code;

	args->flags = BTRFS_BALANCE_DATA | BTRFS_BALANCE_METADATA;
	args->data.flags = args->meta.flags = BTRFS_BALANCE_ARGS_USAGE;
	args->data.usage = args->meta.usage = percent;
	code = ioctl(fs, BTRFS_IOC_BALANCE_V2, args);
	// ENOSPC: some chunks did not fit anywhere; the others were moved.
	if (code > 0 || (code < 0 && errno != ENOSPC))
		return err_sys(code > 0 ? EBUSY : errno, "compact the pool");
	return OK;
}

void btrfs_cancel(int fs)
{
	// ENOTCONN, EINVAL: nothing to cancel.
	(void)ioctl(fs, BTRFS_IOC_BALANCE_CTL, BTRFS_BALANCE_CTL_CANCEL);
	(void)name_call(fs, BTRFS_IOC_RESIZE, "cancel");
}

void btrfs_no_cow(int file)
{
	int flags = 0;

	if (ioctl(file, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_NOCOW_FL;
		(void)ioctl(file, FS_IOC_SETFLAGS, &flags);
	}
}
