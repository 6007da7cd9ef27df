// Makes the two memfds that every pid 1 starts from: its program, and its configuration with the
// seccomp filters. Both are sealed against writes. Failure ends the start of the zygote.
#include "warden/init_config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/seccomp.h"
#include "protocol/talk.h"
#include "warden/pid1.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u // since 6.3
#endif
#define NOFILE_SOFT 4096
#define NOFILE_HARD 65536

static int memfd(const char *name, unsigned flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	// Older kernels have no MFD_EXEC, and all their memfds are executable.
	if (fd < 0 && errno == EINVAL && flags)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static fallible seal(int fd)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return err_sys(errno, "seal a memfd");
	return OK;
}

fallible init_config_program(int *out_fd)
{
	auto_fd fd = memfd("cove-init", MFD_EXEC);

	if (fd < 0 || fd_write_all(fd, pid1_start, (size_t)(pid1_end - pid1_start)))
		return err_sys(errno, "put the program of pid 1 into a memfd");
	// One file serves all boxes, and an open fd would let a box lock and watch it across boxes.
	// Its owner, the host's root, has no id in a box, so no capability of a box overrides the
	// mode.
	if (!weak(PROGRAM) && fchmod(fd, 0111))
		return err_sys(errno, "make the program of pid 1 unreadable");
	TRY(seal(fd));
	*out_fd = take_fd(&fd);
	return OK;
}

static void free_programs(struct seccomp_program (*programs)[SECCOMP_FILTER_COUNT])
{
	for (int i = 0; i < SECCOMP_FILTER_COUNT; i++)
		seccomp_free(&(*programs)[i]);
}

fallible init_config_make(bool joins_by_clone, int *out_fd)
{
	on_exit_call(free_programs) struct seccomp_program filters[SECCOMP_FILTER_COUNT] = {0};
	auto_fd fd = memfd("cove-init-config", 0);
	struct talk_init_config init_config = {.version = TALK_VERSION,
					       .joins_by_clone = joins_by_clone};
	struct rlimit files;

	_Static_assert(SECCOMP_FILTER_COUNT ==
			       sizeof(init_config.filter_len) / sizeof(*init_config.filter_len),
		       "the init config holds every filter");
	if (getrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "read the limit of open files");
	init_config.nofile_hard = files.rlim_max < NOFILE_HARD ? (uint32_t)files.rlim_max
							       : NOFILE_HARD;
	init_config.nofile_soft = init_config.nofile_hard < NOFILE_SOFT ? init_config.nofile_hard
									: NOFILE_SOFT;
	for (int i = 0; i < SECCOMP_FILTER_COUNT; i++) {
		TRY(seccomp_build(i, 0, &filters[i]));
		init_config.filter_len[i] = filters[i].len;
	}
	if (weak(SYNC_PACE) || !seccomp_can_listen())
		seccomp_drop_listener(&filters[SECCOMP_ALLOW]);
	if (fd < 0 || fd_write_all(fd, &init_config, sizeof(init_config)))
		return err_sys(errno, "write the init config");
	for (int i = 0; i < SECCOMP_FILTER_COUNT; i++)
		if (fd_write_all(fd, filters[i].code, filters[i].len * sizeof(*filters[i].code)))
			return err_sys(errno, "write a filter into the init config");
	TRY(seal(fd));
	*out_fd = take_fd(&fd);
	return OK;
}
