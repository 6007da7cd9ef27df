// Reasons when an archive does not fit: that the host has no room is not the archive's fault.
#include "warden/unpack.h"

#include <fcntl.h>

#include "base/auto.h"
#include "os/path.h"
#include "scratch.h"
#include "tap.h"

static struct err *take(uint64_t bytes_max)
{
	on_exit_call(unpack_done) struct unpack unpack;
	auto_fd root = -1, archive = -1;
	struct err *err;

	if (scratch_run("rm -rf root && mkdir root && head -c 3000000 /dev/urandom >big && tar cf "
			"big.tar big"))
		return err_new(INTERNAL, "internal", "no archive");
	TRY(path_dir(scratch, "root", 0755, &root));
	archive = openat(scratch, "big.tar", O_RDONLY | O_CLOEXEC);
	unpack_begin(&unpack, root, bytes_max);
	err = unpack_tar(&unpack, archive, -1);
	return err;
}

TEST(room, "an archive that the host has no room for is refused as such")
{
	auto_err err = take(2 << 20);

	CHECK(err && err_kind(err) == ERR_NO_SPACE);
	CHECK_STR(err ? err_reason(err) : "", "disk_full");
}

TEST(fits, "the same archive is unpacked where there is room")
{
	CHECK_OK(take(UNPACK_BYTES_MAX));
}
