// libarchive reads, extract.c writes. Device nodes, pipes and sockets are dropped. Of extended
// attributes only user.* is kept, without those that an overlay could interpret. Sizes that the
// archive claims are ignored: bytes are counted as they are written.
//
// syscalls: read pwrite64 ftruncate fsetxattr close mmap munmap mremap brk madvise lseek
#include "warden/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/weak.h"

#define INPUT_SIZE 65536
#define FILE_SIZE_MAX (1ll << 40) // holes are free, but bounded
#define BOMB_FREE (100ull << 20)
#define BOMB_RATIO 200
#define XATTR_MAX 65536
#define TAIL 512

struct input {
	int fd;
	uint64_t bytes;
	char tail[TAIL]; // the last bytes that were read
	char room[INPUT_SIZE];
};

struct reader {
	struct unpack *unpack;
	struct archive *archive;
	struct input *input;
	uint64_t bytes; // from this archive
	struct buf path, target;
};

void unpack_begin(struct unpack *unpack, int root, uint64_t bytes_max)
{
	*unpack = (struct unpack){.bytes_max = bytes_max};
	extract_init(&unpack->extract, root);
}

void unpack_done(struct unpack *unpack)
{
	extract_done(&unpack->extract);
}

static void keep_tail(struct input *input, const char *bytes, size_t len)
{
	if (len >= TAIL) {
		memcpy(input->tail, bytes + len - TAIL, TAIL);
		return;
	}
	memmove(input->tail, input->tail + len, TAIL - len);
	memcpy(input->tail + TAIL - len, bytes, len);
}

static la_ssize_t unpack_take(struct archive *archive, void *arg, const void **out)
{
	struct input *input = arg;
	ssize_t got;

	do
		got = read(input->fd, input->room, sizeof(input->room));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		archive_set_error(archive, errno, "cannot read on");
	if (got > 0)
		keep_tail(input, input->room, (size_t)got);
	input->bytes += got > 0 ? (uint64_t)got : 0;
	*out = input->room;
	return got;
}

static fallible unpack_explain(struct archive *archive)
{
	const char *why = archive_error_string(archive);

	if (archive_errno(archive) == ENOMEM)
		return err_new(TOO_LARGE, "archive_too_large", "unpacking takes too much memory");
	return err_hint(err_new(INVALID, "bad_archive", "this is no whole archive: %.120s",
				why ? why : "unknown"),
			"give a tar, plain or packed by gzip, bzip2, xz or zstd");
}

static struct extract_attrs attributes_of(struct archive_entry *entry)
{
	// Negative ids are as invalid in a box as those beyond its range.
	return (struct extract_attrs){
		.mode = archive_entry_perm(entry),
		.uid = (uint64_t)archive_entry_uid(entry),
		.gid = (uint64_t)archive_entry_gid(entry),
		.mtime = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)},
	};
}

static fallible unpack_account(struct reader *reader, size_t len)
{
	struct unpack *unpack = reader->unpack;

	unpack->bytes += len;
	reader->bytes += len;
	if (unpack->bytes > unpack->bytes_max)
		return err_new(TOO_LARGE, "archive_too_large",
			       "the archive has more than %llu MiB when unpacked",
			       (unsigned long long)(unpack->bytes_max >> 20));
	if (!weak(RATIO) && reader->bytes > BOMB_FREE &&
	    reader->bytes / BOMB_RATIO > reader->input->bytes)
		return err_new(TOO_LARGE, "archive_bomb",
			       "the archive expands to more than %d times its size", BOMB_RATIO);
	return OK;
}

static fallible write_at(int fd, const char *bytes, size_t len, off_t at, const char *path)
{
	while (len > 0) {
		ssize_t put = pwrite(fd, bytes, len, at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && (errno == ENOSPC || errno == EDQUOT))
			return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
		if (put < 0 && errno == EFBIG) // RLIMIT_FSIZE of the jail
			return err_new(TOO_LARGE, "archive_too_large", "'%.100s' is too large",
				       path);
		if (put < 0)
			return err_sys(errno, "write '%.100s'", path);
		bytes += put;
		at += put;
		len -= (size_t)put;
	}
	return OK;
}

static fallible write_data(struct reader *reader, int fd)
{
	la_int64_t at = 0, end = 0;
	const void *bytes;
	size_t len;
	int r;

	while ((r = archive_read_data_block(reader->archive, &bytes, &len, &at)) == ARCHIVE_OK) {
		if (at < 0 || at > FILE_SIZE_MAX || (uint64_t)at + len > FILE_SIZE_MAX)
			return err_new(TOO_LARGE, "archive_too_large", "'%.100s' is too large",
				       reader->path.at);
		TRY(unpack_account(reader, len));
		TRY(write_at(fd, bytes, len, at, reader->path.at));
		end = at + (la_int64_t)len;
	}
	if (r != ARCHIVE_EOF)
		return unpack_explain(reader->archive);
	// A hole at the end shows only in the claimed size.
	if (at > end && at <= FILE_SIZE_MAX && ftruncate(fd, at))
		return errno == EFBIG ? err_new(TOO_LARGE, "archive_too_large",
						"'%.100s' is too large", reader->path.at)
				      : err_sys(errno, "size '%.100s'", reader->path.at);
	return OK;
}

static void put_xattrs(struct archive_entry *entry, int fd)
{
	const char *name;
	const void *value;
	size_t size;

	archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK)
		if (name && str_starts(str_of(name), "user.") &&
		    !str_starts(str_of(name), "user.overlay.") && size <= XATTR_MAX)
			// Attributes that the file system has no room for are dropped.
			(void)fsetxattr(fd, name, value, size, 0);
}

static fallible unpack_put_file(struct reader *reader, struct archive_entry *entry)
{
	struct extract_attrs attrs = attributes_of(entry);
	auto_fd fd = -1;

	TRY(extract_file(&reader->unpack->extract, reader->path.at, &fd));
	TRY(write_data(reader, fd));
	put_xattrs(entry, fd);
	return extract_attributes(fd, reader->path.at, &attrs);
}

static fallible put_link(struct reader *reader, const char *target)
{
	TRY(extract_clean(target, &reader->target));
	return extract_link(&reader->unpack->extract, reader->path.at, reader->target.at);
}

static fallible unpack_put(struct reader *reader, struct archive_entry *entry)
{
	struct extract *extract = &reader->unpack->extract;
	struct extract_attrs attrs = attributes_of(entry);
	const char *link = archive_entry_hardlink(entry);

	if (link)
		return put_link(reader, link);
	switch (archive_entry_filetype(entry)) {
	case AE_IFREG:
		return unpack_put_file(reader, entry);
	case AE_IFDIR:
		return extract_dir(extract, reader->path.at, &attrs);
	case AE_IFLNK:
		link = archive_entry_symlink(entry);
		return extract_symlink(extract, reader->path.at, link ? link : "", &attrs);
	default:
		if (weak(NODES) && !mknodat(extract->root, reader->path.at,
					    archive_entry_mode(entry), archive_entry_rdev(entry)))
			return OK;
		reader->unpack->files--; // a device node or pipe: not made
		return OK;
	}
}

static fallible unpack_entry(struct reader *reader, struct archive_entry *entry, int layer)
{
	const char *name = archive_entry_pathname(entry);
	bool done = false;

	if (!name)
		return err_new(INVALID, "bad_archive", "an entry has no name");
	if (++reader->unpack->entries > UNPACK_ENTRIES_MAX)
		return err_new(TOO_LARGE, "archive_too_large",
			       "the archive has more than %d entries", UNPACK_ENTRIES_MAX);
	TRY(extract_clean(name, &reader->path));
	if (layer >= 0)
		TRY(extract_whiteout(&reader->unpack->extract, reader->path.at, &done));
	if (done)
		return OK;
	reader->unpack->files++;
	return unpack_put(reader, entry);
}

// Reads what follows the archive too, so that its writer gets no EPIPE. A plain tar has no
// checksum, but ends with zeros: their absence reveals a truncated archive.
static fallible unpack_finish(struct reader *reader)
{
	static const char zeros[TAIL];
	struct input *input = reader->input;
	const void *bytes;
	la_ssize_t got;

	while ((got = unpack_take(reader->archive, input, &bytes)) > 0)
		if (input->bytes > UNPACK_BYTES_MAX)
			return err_new(TOO_LARGE, "archive_too_large", "the archive does not end");
	if (got < 0)
		return unpack_explain(reader->archive);
	if (archive_filter_code(reader->archive, 0) == ARCHIVE_FILTER_NONE &&
	    memcmp(input->tail, zeros, TAIL) != 0)
		return err_new(INVALID, "bad_archive", "the archive is truncated");
	return OK;
}

static fallible unpack_entries(struct reader *reader, int layer)
{
	struct archive_entry *entry;
	int r;

	if (archive_read_open(reader->archive, reader->input, NULL, unpack_take, NULL))
		return unpack_explain(reader->archive);
	while ((r = archive_read_next_header(reader->archive, &entry)) != ARCHIVE_EOF) {
		// A warning concerns a name in an unknown character set: its bytes are used.
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return unpack_explain(reader->archive);
		TRY(unpack_entry(reader, entry, layer));
	}
	return unpack_finish(reader);
}

fallible unpack_tar(struct unpack *unpack, int archive, int layer)
{
	struct reader reader = {.unpack = unpack,
				.archive = archive_read_new(),
				.input = mem_new_of(struct input),
				.path = BUF_INIT(EXTRACT_NAME_MAX),
				.target = BUF_INIT(EXTRACT_NAME_MAX)};
	struct err *err;

	reader.input->fd = archive;
	memset(reader.input->tail, 1, TAIL);
	extract_layer(&unpack->extract, layer > 0);
	if (!reader.archive || archive_read_support_format_tar(reader.archive) ||
	    archive_read_support_filter_gzip(reader.archive) ||
	    archive_read_support_filter_bzip2(reader.archive) ||
	    archive_read_support_filter_xz(reader.archive) ||
	    archive_read_support_filter_zstd(reader.archive))
		err = err_sys(ENOMEM, "start libarchive");
	else
		err = unpack_entries(&reader, layer);
	archive_read_free(reader.archive);
	free(reader.input);
	buf_done(&reader.path);
	buf_done(&reader.target);
	return err;
}
