// The file of a named tape: a label, then the log. The label begins with a magic, a version and its
// own length, so that a later version can extend it. Numbers are little-endian.
//
//	"COVETAPE" u32 version, u32 length | u64 started, u64 cap, u32 pid, u32 conn
//	u8 flags | three texts: id, session, command | u64 time limit
//
// A crash may leave a partial frame at the end: its length is then what is there (tape_write.c).
// The offset in each frame must equal the sum of the lengths before it, so zeros or old blocks are
// not taken for frames. Everything here blocks and runs on worker threads.
//
// syscalls: openat mkdirat pwritev pwrite64 pread64 ftruncate unlinkat getdents64 lseek fstat newfstatat
// syscalls: fcntl close
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "box/tape_private.h"
#include "box/tape_sync.h"
#include "codec/pack.h"
#include "loop/offload.h"
#include "loop/pump.h"

#define MAGIC "COVETAPE"
#define VERSION 1
#define LABEL_HEAD 16
#define LABEL_MAX (4 * TAPE_TEXT_MAX)
#define BLOCK 16384
#define LOOK_US 20000

void frame_put(uint8_t at[TAPE_FRAME_HEAD], enum frame_kind kind, size_t len, uint64_t offset)
{
	struct pack pack;

	pack_init(&pack, at, TAPE_FRAME_HEAD);
	pack_u32(&pack, (uint32_t)len | (uint32_t)kind << 24);
	pack_u32(&pack, (uint32_t)offset);
}

bool frame_get(const uint8_t at[TAPE_FRAME_HEAD], struct frame *out)
{
	struct unpack in;
	uint32_t word;

	unpack_init(&in, at, TAPE_FRAME_HEAD);
	word = unpack_u32(&in);
	*out = (struct frame){
		.kind = (enum frame_kind)(word >> 24),
		.len = word & 0xffffff,
		.offset = unpack_u32(&in),
	};
	return out->kind < FRAME_KINDS && out->len > 0 && out->len <= TAPE_FRAME_MAX;
}

static struct str cut(struct str text)
{
	return (struct str){text.at, text.len < TAPE_TEXT_MAX ? text.len : TAPE_TEXT_MAX};
}

char *label_encode(const struct tape_label *label, size_t *out_len)
{
	struct str id = cut(label->id), session = cut(label->session),
		   command = cut(label->command);
	size_t size = 128 + id.len + session.len + command.len;
	char *bytes = mem_new(size);
	struct pack pack;

	pack_init(&pack, bytes, size);
	memcpy(pack.at, MAGIC, 8);
	pack.len = 8;
	pack_u32(&pack, VERSION);
	pack_u32(&pack, 0);
	pack_u64(&pack, (uint64_t)label->started_ms);
	pack_u64(&pack, label->cap);
	pack_u32(&pack, label->pid);
	pack_u32(&pack, label->conn);
	pack_u8(&pack, (uint8_t)((session.at ? LABEL_SESSION : 0) |
				 (label->auto_cleanup ? LABEL_AUTO : 0)));
	pack_text(&pack, id);
	pack_text(&pack, session.at ? session : STR(""));
	pack_text(&pack, command);
	pack_u64(&pack, label->wall_ms);
	*out_len = pack.len;
	pack_init(&pack, bytes + 12, 4);
	pack_u32(&pack, (uint32_t)*out_len);
	return bytes;
}

// The length in the label's header; 0: not a label of ours.
static size_t label_length(const char *bytes)
{
	struct unpack in;
	uint32_t version, len;

	if (memcmp(bytes, MAGIC, 8) != 0)
		return 0;
	unpack_init(&in, bytes + 8, 8);
	version = unpack_u32(&in);
	len = unpack_u32(&in);
	return version == VERSION && len > LABEL_HEAD && len <= LABEL_MAX ? len : 0;
}

bool label_decode(const char *bytes, size_t len, struct tape_label *out)
{
	struct tape_label label = {0};
	struct unpack in;
	uint8_t flags;

	if (len < LABEL_HEAD || label_length(bytes) != len)
		return false;
	unpack_init(&in, bytes + LABEL_HEAD, len - LABEL_HEAD);
	label.started_ms = (int64_t)unpack_u64(&in);
	label.cap = unpack_u64(&in);
	label.pid = unpack_u32(&in);
	label.conn = unpack_u32(&in);
	flags = unpack_u8(&in);
	label.auto_cleanup = flags & LABEL_AUTO;
	label.id = unpack_text(&in, TAPE_TEXT_MAX);
	label.session = unpack_text(&in, TAPE_TEXT_MAX);
	label.command = unpack_text(&in, TAPE_TEXT_MAX);
	if (in.left) // the first labels end here
		label.wall_ms = unpack_u64(&in);
	if (!(flags & LABEL_SESSION))
		label.session = (struct str){0};
	if (!unpack_end(&in))
		return false;
	*out = label;
	return true;
}

// Creates the file. An empty one, whose creator was killed before the first write, is used as new.
static int tape_file_make_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;

	if (fd >= 0 || errno != EEXIST)
		return fd;
	fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	errno = EEXIST;
	return -1;
}

static int tape_file_make(int dir, const char *name)
{
	int fd = tape_file_make_file(dir, name);
	const char *slash = strchr(name, '/');
	char folder[256];

	if (fd >= 0 || errno != ENOENT || !slash || (size_t)(slash - name) >= sizeof(folder))
		return fd;
	memcpy(folder, name, (size_t)(slash - name));
	folder[slash - name] = 0;
	if (mkdirat(dir, folder, 0700) && errno != EEXIST)
		return -1;
	return tape_file_make_file(dir, name);
}

int spill_open(int dir, const char *name, bool made)
{
	return made ? openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
		    : tape_file_make(dir, name);
}

bool spill_write(int file, struct iovec *parts, int count, uint64_t at)
{
	while (count > 0) {
		ssize_t n = pwritev(file, parts, count, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
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

bool spill_read(int file, char *room, size_t len, uint64_t at)
{
	while (len > 0) {
		ssize_t n = pread(file, room, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENODATA;
		if (n <= 0)
			return false;
		room += n;
		at += (size_t)n;
		len -= (size_t)n;
	}
	return true;
}

// True if the disk is nearly full. The file system is asked every LOOK_US, and when half of its
// free space may be used up; most writes ask nothing.
bool tape_disk_is_short(int dir, int file, size_t len)
{
	static _Atomic int64_t looked_us = -LOOK_US, room;
	static _Atomic int looked_dir = -1;
	int64_t now = clock_us();

	if (looked_dir != dir || now - looked_us >= LOOK_US || room <= 0) {
		uint64_t left = pump_room(file) / 2;

		room = left < INT64_MAX ? (int64_t)left : INT64_MAX;
		looked_dir = dir;
		looked_us = now;
		if (room < (int64_t)len)
			room = 0;
	}
	if (room == 0)
		return true;
	room -= (int64_t)len;
	return false;
}

void spill_run(void *arg)
{
	struct spill *spill = arg;
	uint8_t head[TAPE_FRAME_HEAD];
	struct iovec parts[3];
	int count = 0;

	if (spill->file < 0) {
		spill->file = spill->name ? spill_open(spill->dir, spill->name, spill->made)
					  : openat(spill->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC,
						   0600);
		if (spill->file < 0) {
			spill->errnum = errno;
			return;
		}
	}
	// Output of one box must not fill the disk that all boxes share.
	if (spill->len && spill->kind != FRAME_END &&
	    tape_disk_is_short(spill->dir, spill->file, spill->len)) {
		spill->errnum = ENOSPC;
		return;
	}
	if (spill->label.len)
		parts[count++] = (struct iovec){(void *)spill->label.at, spill->label.len};
	if (spill->len) {
		frame_put(head, spill->kind, spill->len, spill->offset);
		parts[count++] = (struct iovec){head, sizeof(head)};
		parts[count++] = (struct iovec){(void *)spill->bytes, spill->len};
	}
	errno = 0;
	if (!spill_write(spill->file, parts, count, spill->at)) {
		spill->errnum = errno ? errno : EIO;
		// Remove a partial record; if this fails too, the next open cuts it.
		if (ftruncate(spill->file, (off_t)spill->at))
			spill->errnum = errno;
	}
	if (spill->name)
		tape_sync_touch();
	kill_point("daemon.tape_written", !spill->len		     ? "label"
					  : spill->kind == FRAME_END ? "end"
								     : "data");
	if (spill->shut)
		close(spill->file);
}

// A read buffer, so that small frames cost no call each.
struct window {
	int file;
	uint64_t at;
	size_t len;
	int errnum;
	char bytes[BLOCK];
};

static bool tape_file_look(struct window *window, uint64_t at, void *room, size_t len)
{
	ssize_t n;

	if (at >= window->at && at + len <= window->at + window->len) {
		memcpy(room, window->bytes + (at - window->at), len);
		return true;
	}
	if (len > BLOCK / 2) {
		if (spill_read(window->file, room, len, at))
			return true;
		window->errnum = errno;
		return false;
	}
	do {
		n = pread(window->file, window->bytes, BLOCK, (off_t)at);
	} while (n < 0 && errno == EINTR);
	window->at = at;
	window->len = n > 0 ? (size_t)n : 0;
	if (window->len < len) {
		window->errnum = n < 0 ? errno : ENODATA;
		return false;
	}
	memcpy(room, window->bytes, len);
	return true;
}

static bool tape_file_copy(struct fetch *fetch, struct window *window, uint64_t place, void *room,
			   size_t len)
{
	if (fetch->memory) {
		memcpy(room, fetch->memory + place, len);
		return true;
	}
	if (tape_file_look(window, place + fetch->shift, room, len))
		return true;
	fetch->errnum = window->errnum;
	return false;
}

// Copies the part of this frame that belongs to the run. False: the run ends before or in it.
static bool tape_file_take(struct fetch *fetch, struct window *window, const struct frame *frame)
{
	uint64_t want = fetch->offset + fetch->len;
	size_t skip = (size_t)(want - fetch->at.offset), part = frame->len - skip;
	uint64_t place = fetch->at.place + TAPE_FRAME_HEAD + skip;

	if (fetch->len && (enum tape_stream)frame->kind != fetch->stream)
		return false;
	if (part > fetch->size - fetch->len)
		part = fetch->size - fetch->len;
	if (part && !tape_file_copy(fetch, window, place, fetch->room + fetch->len, part))
		return false;
	fetch->stream = (enum tape_stream)frame->kind;
	fetch->len += part;
	return skip + part == frame->len;
}

static void tape_file_walk(struct fetch *fetch, struct window *window)
{
	while (fetch->at.place < fetch->end) {
		uint8_t head[TAPE_FRAME_HEAD];
		struct frame frame;

		if (!tape_file_copy(fetch, window, fetch->at.place, head, sizeof(head)))
			return;
		if (!frame_get(head, &frame) || frame.kind >= FRAME_END ||
		    frame.offset != (uint32_t)fetch->at.offset) {
			fetch->errnum = EIO;
			return;
		}
		if (fetch->at.offset + frame.len > fetch->offset + fetch->len &&
		    !tape_file_take(fetch, window, &frame))
			return;
		mark_step(&fetch->at, (enum tape_stream)frame.kind, TAPE_FRAME_HEAD, frame.len);
	}
}

void fetch_run(void *arg)
{
	struct fetch *fetch = arg;
	auto_free struct window *window = NULL;

	if (fetch->memory) {
		tape_file_walk(fetch, NULL);
		return;
	}
	if (fetch->file < 0 && fetch->name)
		fetch->file = openat(fetch->dir, fetch->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fetch->file < 0) {
		fetch->errnum = errno;
		return;
	}
	window = mem_grow(NULL, 1, sizeof(*window));
	window->file = fetch->file;
	window->len = 0;
	tape_file_walk(fetch, window);
}

static bool scan_label(struct scan *scan, struct window *window)
{
	char head[LABEL_HEAD];
	size_t len = tape_file_look(window, 0, head, sizeof(head)) ? label_length(head) : 0;

	if (!len)
		return false;
	scan->label = mem_new(len);
	scan->label_len = len;
	return tape_file_look(window, 0, scan->label, len);
}

static bool scan_ending(struct scan *scan, struct window *window, const struct frame *frame)
{
	uint64_t at = scan->label_len + scan->place + TAPE_FRAME_HEAD;

	scan->ended = frame->len <= sizeof(scan->ending) &&
		      tape_file_look(window, at, scan->ending, frame->len);
	scan->ending_len = frame->len;
	return false;
}

// Frames continue after a gap.
static bool scan_gap(struct scan *scan, struct window *window, const struct frame *frame,
		     uint64_t size, uint64_t *offset)
{
	uint64_t at = scan->label_len + scan->place + TAPE_FRAME_HEAD;
	char payload[GAP_PAYLOAD];
	struct unpack in;
	struct mark start;

	if (frame->len < GAP_PAYLOAD || frame->len > 2 * (size_t)GAP_PAYLOAD ||
	    !tape_file_look(window, at + frame->len - GAP_PAYLOAD, payload, GAP_PAYLOAD))
		return false;
	unpack_init(&in, payload, GAP_PAYLOAD);
	start.place = unpack_u64(&in);
	start.offset = unpack_u64(&in);
	start.stdout_bytes = unpack_u64(&in);
	if (start.place < scan->place + TAPE_FRAME_HEAD + frame->len ||
	    start.place > size - scan->label_len || start.offset < *offset)
		return false;
	scan->gap(scan->arg, frame->len, &start);
	scan->place = start.place;
	*offset = start.offset;
	return true;
}

// Shortens the last frame to the bytes that are there.
static bool scan_short(struct scan *scan, struct frame *frame, uint64_t at, uint64_t size)
{
	uint8_t head[TAPE_FRAME_HEAD];

	frame->len = (size_t)(size - at - TAPE_FRAME_HEAD);
	if (frame->kind >= FRAME_END || frame->len == 0)
		return false;
	frame_put(head, frame->kind, frame->len, frame->offset);
	if (pwrite(scan->file, head, sizeof(head), (off_t)at) == sizeof(head))
		return true;
	scan->errnum = errno ? errno : EIO;
	return false;
}

// A read error says nothing of the tape: it is not cut for that.
static bool scan_failed(struct scan *scan, const struct window *window)
{
	if (window->errnum && window->errnum != ENODATA)
		scan->errnum = window->errnum;
	return scan->errnum;
}

// Scans one frame. False: no complete one follows.
static bool scan_frame(struct scan *scan, struct window *window, uint64_t size, uint64_t *offset)
{
	uint64_t at = scan->label_len + scan->place;
	uint8_t head[TAPE_FRAME_HEAD];
	struct frame frame;
	char piece[1024];

	if (at + TAPE_FRAME_HEAD > size || !tape_file_look(window, at, head, sizeof(head)) ||
	    !frame_get(head, &frame) || frame.offset != (uint32_t)*offset)
		return false;
	if (at + TAPE_FRAME_HEAD + frame.len > size && !scan_short(scan, &frame, at, size))
		return false;
	if (frame.kind == FRAME_END)
		return scan_ending(scan, window, &frame);
	if (frame.kind == FRAME_GAP)
		return scan_gap(scan, window, &frame, size, offset);
	at += TAPE_FRAME_HEAD;
	for (size_t done = 0, part; done < frame.len; done += part) {
		part = frame.len - done < sizeof(piece) ? frame.len - done : sizeof(piece);
		if (!tape_file_look(window, at + done, piece, part))
			return false;
		scan->each(scan->arg, (enum tape_stream)frame.kind, piece, part);
	}
	scan->each(scan->arg, (enum tape_stream)frame.kind, NULL, frame.len);
	scan->place += TAPE_FRAME_HEAD + frame.len;
	*offset += frame.len;
	return true;
}

void scan_run(void *arg)
{
	struct scan *scan = arg;
	auto_free struct window *window = mem_grow(NULL, 1, sizeof(*window));
	uint64_t offset = 0;
	struct stat st;

	scan->file = openat(scan->dir, scan->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (scan->file < 0 || fstat(scan->file, &st)) {
		scan->errnum = errno;
		return;
	}
	window->file = scan->file;
	window->len = 0;
	window->errnum = 0;
	scan->bad = !S_ISREG(st.st_mode) || !scan_label(scan, window);
	if (scan_failed(scan, window) || scan->bad)
		return;
	while (scan_frame(scan, window, (uint64_t)st.st_size, &offset))
		continue;
	kill_point("daemon.tape_scanned", NULL);
	if (!scan_failed(scan, window) && !scan->ended &&
	    ftruncate(scan->file, (off_t)(scan->label_len + scan->place)))
		scan->errnum = errno;
}

struct removal {
	int dir;
	size_t count;
	char **names;
};

static void remove_folder(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (fd >= 0 && !list)
		close(fd);
	while (list && (entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
	unlinkat(dir, name, fd >= 0 ? AT_REMOVEDIR : 0);
}

static void removal_run(void *arg)
{
	struct removal *removal = arg;

	for (size_t i = 0; i < removal->count; i++)
		remove_folder(removal->dir, removal->names[i]);
}

static void removal_task(void *arg)
{
	struct removal *removal = arg;

	offload_run(removal_run, removal);
	for (size_t i = 0; i < removal->count; i++)
		free(removal->names[i]);
	free(removal->names);
	free(removal);
}

static void add_name(struct removal *removal, const char *name)
{
	removal->names = mem_grow(removal->names, removal->count + 1, sizeof(char *));
	removal->names[removal->count++] = mem_str(name);
}

void tape_remove_folder(struct loop *loop, int dir, const char *name)
{
	struct removal *removal = mem_new_of(struct removal);

	removal->dir = dir;
	add_name(removal, name);
	task_start(loop, "tape.remove", removal_task, removal);
}

void tape_remove_leaked_all(struct loop *loop, int dir,
			    bool (*is_known)(const char *name, void *arg), void *arg)
{
	struct removal *removal = mem_new_of(struct removal);
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	removal->dir = dir;
	if (fd >= 0 && !list)
		close(fd);
	while (list && (entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    !(is_known && is_known(entry->d_name, arg)))
			add_name(removal, entry->d_name);
	if (list)
		closedir(list);
	task_start(loop, "tape.remove", removal_task, removal);
}
