// Capabilities, no_new_privs and Landlock. Every step only removes privileges. A kernel without
// Landlock is accepted; any other failure is an error, so that no process runs with more than it
// should.
#include "os/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

// Newer than the headers of Debian 12; the ABI version says whether the kernel knows them.
#define FS_REFER (1ull << 13)	 // version 2
#define FS_TRUNCATE (1ull << 14) // version 3
#define FS_ALL_1 ((1ull << 13) - 1)
#define FS_READ                                                                                    \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_OF_FILES                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |                               \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

uint64_t caps_warden(void)
{
	static const int kept[] = {
		CAP_SYS_ADMIN,	  CAP_SETUID,	  CAP_SETGID,  CAP_SETFCAP,   CAP_CHOWN,
		CAP_DAC_OVERRIDE, CAP_FOWNER,	  CAP_MKNOD,   CAP_NET_ADMIN, CAP_BPF,
		CAP_KILL,	  CAP_SYS_CHROOT, CAP_SETPCAP,
	};
	uint64_t mask = 0;

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		mask |= CAPS_BIT(kept[i]);
	return mask;
}

fallible caps_now(uint64_t *out)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps))
		return err_sys(errno, "read our capabilities");
	*out = caps[0].effective | (uint64_t)caps[1].effective << 32;
	return OK;
}

fallible caps_bound(uint64_t mask)
{
	uint64_t now = 0;

	TRY(caps_now(&now));
	// EINVAL: beyond the last capability of this kernel.
	for (int cap = 0; cap < 64; cap++) {
		if (mask & CAPS_BIT(cap))
			continue;
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 1)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno != EINVAL &&
		    (now & CAPS_BIT(CAP_SETPCAP)))
			return err_sys(errno, "drop capability %d from the bounding set", cap);
	}
	return OK;
}

fallible caps_keep(uint64_t mask)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};
	uint64_t now = 0;

	TRY(caps_now(&now));
	mask &= now;
	TRY(caps_bound(mask)); // while CAP_SETPCAP lasts
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		caps[i].effective = (uint32_t)(mask >> (32 * i));
		caps[i].permitted = caps[i].effective;
	}
	if (syscall(SYS_capset, &head, caps))
		return err_sys(errno, "give up capabilities");
	return OK;
}

fallible caps_no_new_privs(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return err_sys(errno, "set no_new_privs");
	return OK;
}

int caps_landlock_version(void)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
			       LANDLOCK_CREATE_RULESET_VERSION);

	return version < 0 ? 0 : (int)version;
}

static fallible permit(int rules, const struct caps_path *entry, uint64_t known)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = entry->writable ? known : known & FS_READ,
	};
	auto_fd fd = open(entry->path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return OK;
	if (fd < 0 || fstat(fd, &st))
		return err_sys(errno, "open %s", entry->path);
	// A rule on a file may name only rights that apply to files.
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_OF_FILES;
	rule.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		return err_sys(errno, "permit %s by Landlock", entry->path);
	return OK;
}

fallible caps_landlock(const struct caps_path *paths, size_t count)
{
	int version = caps_landlock_version();
	struct landlock_ruleset_attr attr = {.handled_access_fs = FS_ALL_1 |
								  (version >= 2 ? FS_REFER : 0) |
								  (version >= 3 ? FS_TRUNCATE : 0)};

	if (version == 0)
		return OK;
	auto_fd rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (rules < 0)
		return err_sys(errno, "make a Landlock ruleset");
	for (size_t i = 0; i < count; i++)
		TRY(permit(rules, &paths[i], attr.handled_access_fs));
	if (syscall(SYS_landlock_restrict_self, rules, 0))
		return err_sys(errno, "confine ourselves by Landlock");
	return OK;
}
