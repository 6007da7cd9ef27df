// Changes fsuid, fsgid or the effective uid by raw system calls, and restores the effective
// capabilities that the change removes. A failure leaves the process in an undefined state: the
// caller must exit.
#include "os/set_ids.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

int set_ids_raise(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps))
		return -1;
	caps[0].effective = caps[0].permitted;
	caps[1].effective = caps[1].permitted;
	return (int)syscall(SYS_capset, &head, caps);
}

int set_ids_effective(uint32_t id)
{
	return syscall(SYS_setresuid, -1, id, -1) ? -1 : set_ids_raise();
}

int set_ids_files(uint32_t id)
{
	setfsgid(id);
	setfsuid(id);
	return set_ids_raise();
}
