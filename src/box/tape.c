// The log of a tape is a row of frames: two bytes that say stream and length, then the bytes. A
// frame never grows past 32,767 bytes. The log's first 64 KiB lie in memory, what comes behind lies
// in a file without a name, and a frame is wholly in one or the other. A frame in memory that is
// the last one may still grow; that is why a reader who has read to its end stays there and moves
// on only when another frame follows. An offset is the frame's place in the log and the bytes of it
// that were read: place << 16 | read.
//
// There is one writer. What it is writing to the disk is not in the log until it is there, so
// readers and writer may be on worker threads at the same time.
//
// syscalls: openat pwritev pread64 close
#include "box/tape.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "loop/offload.h"
#include "wire/text.h"

#define HEAD_MAX 65536
#define FRAME_MAX 32767u
#define FRAME_HEAD 2
#define SPILL_MAX 65536 // bytes a spill
#define SPILL_PARTS ((SPILL_MAX / FRAME_MAX + 1) * 2)

struct utf8 {
	bool broken;
	char carry[4]; // the beginning of a character whose rest has not come
	size_t carried;
};

struct tape_budget {
	int refs;
	uint64_t left;
};

struct tape {
	struct tape_budget *budget; // NULL: none
	struct loop *loop;
	int dir;
	int refs;
	uint64_t cap, kept;
	char *head;
	size_t head_len, head_room;
	size_t last; // place of the last frame in memory
	bool sealed; // memory takes no more
	int file;
	uint64_t file_len;
	uint64_t spilled; // taken from the budget
	bool ended, broken;
	uint64_t seen[TAPE_STREAMS];
	bool truncated[TAPE_STREAMS];
	struct utf8 utf8[TAPE_STREAMS];
	struct bell more;
};

struct tape *tape_new(struct loop *loop, int dir, uint64_t cap)
{
	struct tape *tape = mem_new_of(struct tape);

	tape->loop = loop;
	tape->dir = dir;
	tape->refs = 1;
	tape->cap = cap;
	tape->file = -1;
	bell_init(&tape->more);
	return tape;
}

struct tape_budget *tape_budget_new(uint64_t bytes)
{
	struct tape_budget *budget = mem_new_of(struct tape_budget);

	*budget = (struct tape_budget){.refs = 1, .left = bytes};
	return budget;
}

void tape_budget_drop(struct tape_budget *budget)
{
	if (budget && --budget->refs == 0)
		free(budget);
}

void tape_bound(struct tape *tape, struct tape_budget *budget)
{
	budget->refs++;
	tape->budget = budget;
}

void tape_hold(struct tape *tape)
{
	tape->refs++;
}

static void close_file(void *arg)
{
	close(*(int *)arg);
}

// The last close of an unnamed file frees its blocks: not on the loop.
static void close_task(void *arg)
{
	int fd = (int)(intptr_t)arg;

	offload_run(close_file, &fd);
}

void tape_drop(struct tape *tape)
{
	if (!tape || --tape->refs > 0)
		return;
	if (tape->file >= 0)
		task_start(tape->loop, "tape.close", close_task, (void *)(intptr_t)tape->file);
	if (tape->budget)
		tape->budget->left += tape->spilled;
	tape_budget_drop(tape->budget);
	free(tape->head);
	free(tape);
}

static void check_utf8(struct utf8 *utf8, const char *bytes, size_t len)
{
	struct str rest, whole;

	while (!utf8->broken && utf8->carried > 0 && len > 0) {
		struct str carry = {utf8->carry, utf8->carried + 1};

		utf8->carry[utf8->carried++] = *bytes++;
		len--;
		if (text_utf8_whole(carry) == carry.len) {
			utf8->broken = !text_is_utf8(carry);
			utf8->carried = 0;
		} else if (carry.len == sizeof(utf8->carry)) {
			utf8->broken = true;
		}
	}
	if (utf8->broken || len == 0)
		return;
	rest = (struct str){bytes, len};
	whole = (struct str){bytes, text_utf8_whole(rest)};
	if (!text_is_utf8(whole)) {
		utf8->broken = true;
		return;
	}
	utf8->carried = rest.len - whole.len;
	memcpy(utf8->carry, bytes + whole.len, utf8->carried);
}

static void put_head(uint8_t *at, enum tape_stream stream, size_t len)
{
	uint16_t value = (uint16_t)(len | (stream == TAPE_STDERR ? 0x8000u : 0u));

	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

static enum tape_stream get_head(const uint8_t *at, size_t *out_len)
{
	uint16_t value = (uint16_t)(at[0] | at[1] << 8);

	*out_len = value & FRAME_MAX;
	return value & 0x8000u ? TAPE_STDERR : TAPE_STDOUT;
}

static size_t framed(size_t len)
{
	return len + (len / FRAME_MAX + 1) * FRAME_HEAD;
}

static size_t kept_of(const struct tape *tape, size_t len)
{
	uint64_t left = tape->cap - tape->kept;

	if (tape->ended || tape->broken)
		return 0;
	return len < left ? len : (size_t)left;
}

static bool fits_head(const struct tape *tape, size_t len)
{
	return !tape->sealed && tape->head_len + framed(len) <= HEAD_MAX;
}

bool tape_fits(const struct tape *tape, size_t len)
{
	size_t keep = kept_of(tape, len);

	return keep == 0 || fits_head(tape, keep);
}

static void grow_head(struct tape *tape, size_t need)
{
	size_t room = tape->head_room ? tape->head_room : 512;

	while (room < need)
		room *= 2;
	if (room == tape->head_room)
		return;
	tape->head = mem_grow(tape->head, room, 1);
	tape->head_room = room;
}

static void add_head(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	grow_head(tape, tape->head_len + framed(len));
	while (len > 0) {
		uint8_t *last = (uint8_t *)tape->head + tape->last;
		size_t part = len, old = 0;

		if (tape->head_len == 0 || get_head(last, &old) != stream || old == FRAME_MAX) {
			tape->last = tape->head_len;
			tape->head_len += FRAME_HEAD;
			last = (uint8_t *)tape->head + tape->last;
			old = 0;
		}
		if (part > FRAME_MAX - old)
			part = FRAME_MAX - old;
		put_head(last, stream, old + part);
		memcpy(tape->head + tape->head_len, bytes, part);
		tape->head_len += part;
		bytes += part;
		len -= part;
	}
}

struct spill {
	int dir, file;
	off_t at;
	enum tape_stream stream;
	const char *bytes;
	size_t len;
	size_t written;
	int errnum;
};

static bool write_all(struct spill *spill, struct iovec *parts, int count)
{
	while (count > 0) {
		ssize_t n = pwritev(spill->file, parts, count, spill->at + (off_t)spill->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		spill->written += (size_t)n;
		while (count > 0 && (size_t)n >= parts->iov_len) {
			n -= (ssize_t)parts->iov_len;
			parts++;
			count--;
		}
		if (count > 0) {
			parts->iov_base = (char *)parts->iov_base + n;
			parts->iov_len -= (size_t)n;
		}
	}
	return true;
}

// On a worker thread.
static void spill_run(void *arg)
{
	struct spill *spill = arg;
	struct iovec parts[SPILL_PARTS];
	uint8_t heads[SPILL_PARTS / 2][FRAME_HEAD];
	const char *bytes = spill->bytes;
	size_t left = spill->len;
	int count = 0;

	if (spill->file < 0)
		spill->file = openat(spill->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (spill->file < 0) {
		spill->errnum = errno;
		return;
	}
	while (left > 0) {
		size_t len = left < FRAME_MAX ? left : FRAME_MAX;

		put_head(heads[count / 2], spill->stream, len);
		parts[count] = (struct iovec){heads[count / 2], FRAME_HEAD};
		parts[count + 1] = (struct iovec){(void *)bytes, len};
		count += 2;
		bytes += len;
		left -= len;
	}
	if (!write_all(spill, parts, count))
		spill->errnum = errno ? errno : EIO;
}

static fallible add_file(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len)
{
	while (len > 0) {
		struct spill spill = {
			.dir = tape->dir,
			.file = tape->file,
			.at = (off_t)tape->file_len,
			.stream = stream,
			.bytes = bytes,
			.len = len < SPILL_MAX ? len : SPILL_MAX,
		};

		offload_run(spill_run, &spill);
		tape->file = spill.file;
		if (spill.errnum) {
			tape->broken = true;
			tape->truncated[TAPE_STDOUT] = tape->truncated[TAPE_STDERR] = true;
			return err_sys(spill.errnum, "write a tape");
		}
		tape->file_len += spill.written;
		bell_ring(&tape->more);
		bytes += spill.len;
		len -= spill.len;
	}
	return OK;
}

fallible tape_add(struct tape *tape, enum tape_stream stream, const void *bytes, size_t len)
{
	size_t keep = kept_of(tape, len);
	struct utf8 *utf8 = &tape->utf8[stream];
	bool in_head = fits_head(tape, keep);

	if (!in_head && tape->budget && keep > tape->budget->left)
		keep = (size_t)tape->budget->left;

	tape->seen[stream] += len;
	if (keep < len) {
		tape->truncated[stream] = true;
		// The cut must not make text of it look like something else.
		if (!utf8->broken)
			keep = text_utf8_whole((struct str){bytes, keep});
		tape->cap = tape->kept + keep; // and nothing behind the cut
	}
	if (keep == 0)
		return OK;
	check_utf8(utf8, bytes, keep);
	if (in_head) {
		tape->kept += keep;
		add_head(tape, stream, bytes, keep);
		bell_ring(&tape->more);
		return OK;
	}
	tape->sealed = true;
	tape->kept += keep;
	if (tape->budget) {
		tape->budget->left -= keep;
		tape->spilled += keep;
	}
	return add_file(tape, stream, bytes, keep);
}

void tape_end(struct tape *tape)
{
	tape->ended = true;
	bell_ring(&tape->more);
}

struct fetch {
	int file;
	uint64_t at, end; // place of the frame, end of the file
	size_t skip;	  // of its bytes
	char *room;
	size_t size;
	enum tape_stream stream;
	size_t frame; // its length
	size_t len;   // what was read
	int errnum;
};

// On a worker thread.
static void fetch_run(void *arg)
{
	struct fetch *fetch = arg;
	uint8_t head[FRAME_HEAD];
	size_t len;
	ssize_t n = pread(fetch->file, head, sizeof(head), (off_t)fetch->at);

	if (n != sizeof(head)) {
		fetch->errnum = n < 0 ? errno : EIO;
		return;
	}
	fetch->stream = get_head(head, &fetch->frame);
	if (fetch->frame == 0 || fetch->at + FRAME_HEAD + fetch->frame > fetch->end ||
	    fetch->skip >= fetch->frame)
		return;
	len = fetch->frame - fetch->skip;
	n = pread(fetch->file, fetch->room, len < fetch->size ? len : fetch->size,
		  (off_t)(fetch->at + FRAME_HEAD + fetch->skip));
	if (n <= 0)
		fetch->errnum = n < 0 ? errno : EIO;
	else
		fetch->len = (size_t)n;
}

static void fetch_head(const struct tape *tape, struct fetch *fetch)
{
	const uint8_t *at = (const uint8_t *)tape->head + fetch->at;

	fetch->stream = get_head(at, &fetch->frame);
	if (fetch->frame == 0 || fetch->at + FRAME_HEAD + fetch->frame > fetch->end ||
	    fetch->skip >= fetch->frame)
		return;
	fetch->len = fetch->frame - fetch->skip;
	if (fetch->len > fetch->size)
		fetch->len = fetch->size;
	memcpy(fetch->room, at + FRAME_HEAD + fetch->skip, fetch->len);
}

static fallible bad_offset(void)
{
	return err_new(INVALID, "bad_offset", "the offset is not one of this output");
}

// One try at *offset. fetch->len = 0: nothing there yet.
static fallible read_once(struct tape *tape, uint64_t *offset, struct fetch *fetch)
{
	for (;;) {
		uint64_t place = *offset >> 16, log_len = tape->head_len + tape->file_len;
		bool in_head = place < tape->head_len;

		fetch->skip = *offset & 0xffff;
		if (place >= log_len)
			return place == log_len && fetch->skip == 0 ? OK : bad_offset();
		fetch->file = tape->file;
		fetch->at = in_head ? place : place - tape->head_len;
		fetch->end = in_head ? tape->head_len : tape->file_len;
		if (fetch->at + FRAME_HEAD > fetch->end)
			return bad_offset();
		if (in_head)
			fetch_head(tape, fetch);
		else
			offload_run(fetch_run, fetch);
		if (fetch->errnum)
			return err_sys(fetch->errnum, "read a tape");
		if (fetch->len > 0) {
			*offset += fetch->len;
			return OK;
		}
		if (fetch->frame == 0 || fetch->skip != fetch->frame)
			return bad_offset();
		place += FRAME_HEAD + fetch->frame;
		if (place >= tape->head_len + tape->file_len)
			return OK; // the last frame, which may grow
		*offset = place << 16;
	}
}

fallible tape_read(struct tape *tape, uint64_t *offset, enum tape_stream *out_stream, void *room,
		   size_t size, size_t *out_len, int64_t deadline)
{
	for (;;) {
		struct fetch fetch = {.room = room, .size = size};
		bool ended = tape->ended;

		TRY(read_once(tape, offset, &fetch));
		if (fetch.len > 0)
			*out_stream = fetch.stream;
		if (fetch.len > 0 || ended) {
			*out_len = fetch.len;
			return OK;
		}
		// The disk was waited for, perhaps: only what was said after a look counts.
		if (!tape->ended)
			TRY(bell_wait(&tape->more, deadline), "wait for output");
	}
}

bool tape_truncated(const struct tape *tape, enum tape_stream stream)
{
	return tape->truncated[stream];
}

uint64_t tape_bytes(const struct tape *tape, enum tape_stream stream)
{
	return tape->seen[stream];
}

bool tape_is_utf8(const struct tape *tape)
{
	for (int i = 0; i < TAPE_STREAMS; i++)
		if (tape->utf8[i].broken || tape->utf8[i].carried > 0)
			return false;
	return true;
}
