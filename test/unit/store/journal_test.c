// How long the journal is: as long as it gets, from the start, or as long as it must be.
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "store/kv.h"
#include "unit/store/backends.h"

static int64_t journal_bytes(const struct house *house)
{
	struct stat at;

	return fstatat(house->dir, "cove.db-wal", &at, 0) ? -1 : at.st_size;
}

TEST(room, "with enough disk space writes do not grow the journal")
{
	on_exit_call(close_house) struct house house;
	struct store_kv *rows;
	struct statvfs at;
	size_t count = 0;
	int64_t bytes;

	open_house(&house, &sqlite_driver, true);
	if (fstatvfs(house.dir, &at) == 0 && (uint64_t)at.f_bavail * at.f_frsize < 1 << 29) {
		printf("# skipped: less than 512 MiB are free where tests write\n");
		return;
	}
	bytes = journal_bytes(&house);
	CHECK(house.store && bytes > 4 << 20);
	for (int i = 0; i < 50; i++)
		CHECK_OK(store_kv_put(house.store, "k", STR("v")));
	CHECK(journal_bytes(&house) == bytes);
	store_close(take_ptr(house.store));
	CHECK(journal_bytes(&house) == 0);
	open_store(&house);
	CHECK(house.store && journal_bytes(&house) == bytes);
	CHECK_OK(store_kv_load(house.store, "k", house.arena, &rows, &count));
	CHECK(count == 1);
}

TEST(little, "with little disk space the journal is not preallocated")
{
	on_exit_call(close_house) struct house house;

	open_house(&house, &sqlite_driver, true);
	store_close(take_ptr(house.store));
	close(house.dir);
	CHECK(scratch_run("mkdir little && mount -t tmpfs -o size=4m none little") == 0);
	house.dir = openat(scratch, "little", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	open_store(&house);
	CHECK(house.store && journal_bytes(&house) < 1 << 20);
}
