#include "toolbox/spill_buffer.h"

#include <fcntl.h>

#include "loop/offload.h"
#include "unit/loop/inside.h"

static char pattern(uint64_t i)
{
	return (char)((i * 2654435761u) >> 11);
}

static void fill(struct spill_buffer *spill_buffer, uint64_t len, size_t step)
{
	char room[4096];

	for (uint64_t at = 0; at < len;) {
		size_t n = len - at < step ? (size_t)(len - at) : step;

		for (size_t i = 0; i < n; i++)
			room[i] = pattern(at + i);
		CHECK_OK(spill_buffer_add(spill_buffer, (struct str){room, n}));
		at += n;
	}
}

static bool holds(struct spill_buffer *spill_buffer, uint64_t len)
{
	char room[5000];
	uint64_t at = 0;
	size_t n = 1;

	while (n > 0) {
		auto_err err = spill_buffer_read(spill_buffer, at, room, sizeof(room), &n);

		if (err)
			return false;
		for (size_t i = 0; i < n; i++)
			if (room[i] != pattern(at + i))
				return false;
		at += n;
	}
	return at == len && spill_buffer->len == len;
}

TASK_TEST(small, "a small body stays in memory")
{
	auto_spill_buffer spill_buffer;

	spill_buffer_init(&spill_buffer, AT_FDCWD);
	CHECK(holds(&spill_buffer, 0));
	fill(&spill_buffer, 1000, 7);
	CHECK(spill_buffer.file < 0);
	CHECK(holds(&spill_buffer, 1000));
	fill(&spill_buffer, 0, 1);
}

TASK_TEST(large, "a large body is in an unnamed file, and memory holds its end")
{
	auto_fd dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_spill_buffer spill_buffer;

	CHECK_OK(offload_open(inside_loop, 1));
	spill_buffer_init(&spill_buffer, dir);
	fill(&spill_buffer, 3 * SPILL_BUFFER_MEMORY + 12345, 4096);
	CHECK(spill_buffer.file >= 0);
	CHECK(spill_buffer.memory.len <= SPILL_BUFFER_MEMORY &&
	      spill_buffer.memory.room <= SPILL_BUFFER_MEMORY);
	CHECK(holds(&spill_buffer, 3 * SPILL_BUFFER_MEMORY + 12345));
	CHECK(holds(&spill_buffer, 3 * SPILL_BUFFER_MEMORY + 12345));
	offload_close();
}

TASK_TEST(nowhere, "where no file can be made, a large body is refused")
{
	auto_spill_buffer spill_buffer;
	struct err *err = OK;
	static char room[SPILL_BUFFER_MEMORY];

	spill_buffer_init(&spill_buffer, -1);
	for (int i = 0; i < 3 && !err; i++)
		err = spill_buffer_add(&spill_buffer, (struct str){room, sizeof(room)});
	CHECK_ERR(err, INTERNAL);
}
