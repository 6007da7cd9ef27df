#include "inbox/spool.h"

#include <fcntl.h>

#include "loop/offload.h"
#include "unit/loop/inside.h"

static char pattern(uint64_t i)
{
	return (char)((i * 2654435761u) >> 11);
}

static void fill(struct spool *spool, uint64_t len, size_t step)
{
	char room[4096];

	for (uint64_t at = 0; at < len;) {
		size_t n = len - at < step ? (size_t)(len - at) : step;

		for (size_t i = 0; i < n; i++)
			room[i] = pattern(at + i);
		CHECK_OK(spool_add(spool, (struct str){room, n}));
		at += n;
	}
}

static bool holds(struct spool *spool, uint64_t len)
{
	char room[5000];
	uint64_t at = 0;
	size_t n = 1;

	while (n > 0) {
		auto_err err = spool_read(spool, at, room, sizeof(room), &n);

		if (err)
			return false;
		for (size_t i = 0; i < n; i++)
			if (room[i] != pattern(at + i))
				return false;
		at += n;
	}
	return at == len && spool->len == len;
}

TASK_TEST(small, "a small body stays in memory")
{
	auto_spool spool;

	spool_init(&spool, AT_FDCWD);
	CHECK(holds(&spool, 0));
	fill(&spool, 1000, 7);
	CHECK(spool.file < 0);
	CHECK(holds(&spool, 1000));
	fill(&spool, 0, 1);
}

TASK_TEST(large, "a large one is in a file without a name, and memory holds its end")
{
	auto_fd dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_spool spool;

	CHECK_OK(offload_open(inside_loop, 1));
	spool_init(&spool, dir);
	fill(&spool, 3 * SPOOL_MEMORY + 12345, 4096);
	CHECK(spool.file >= 0);
	CHECK(spool.memory.len <= SPOOL_MEMORY && spool.memory.room <= SPOOL_MEMORY);
	CHECK(holds(&spool, 3 * SPOOL_MEMORY + 12345));
	CHECK(holds(&spool, 3 * SPOOL_MEMORY + 12345));
	offload_close();
}

TASK_TEST(nowhere, "where no file can be made, a large body is refused")
{
	auto_spool spool;
	struct err *err = OK;
	static char room[SPOOL_MEMORY];

	spool_init(&spool, -1);
	for (int i = 0; i < 3 && !err; i++)
		err = spool_add(&spool, (struct str){room, sizeof(room)});
	CHECK_ERR(err, INTERNAL);
}
