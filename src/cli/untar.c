// Unpacks a hostile tar stream with libarchive, confined to a directory: no absolute paths, no
// "..", no symlink is followed, no special files, no set-id bits.
#include "cli/untar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"

#define FLAGS                                                                                      \
	(ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_UNLINK |                    \
	 ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |                       \
	 ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS)

struct untar {
	untar_read_fn *read;
	void *arg;
	struct err *err; // of `read`
	struct archive *in, *out;
};

static la_ssize_t untar_on_read(struct archive *archive, void *arg, const void **at)
{
	struct untar *untar = arg;
	size_t len = 0;

	if (!untar->err)
		untar->err = untar->read(untar->arg, at, &len);
	if (!untar->err)
		return (la_ssize_t)len;
	archive_set_error(archive, EIO, "cannot be read");
	return ARCHIVE_FATAL;
}

static void untar_done(struct untar *untar)
{
	archive_read_free(untar->in);
	archive_write_free(untar->out);
	err_free(untar->err);
}

static fallible untar_failed(struct untar *untar, struct archive *archive, const char *what)
{
	const char *words = archive_error_string(archive);

	if (untar->err)
		return take_ptr(untar->err);
	return err_new(INVALID, what, "cannot unpack: %s", words ? words : "unknown");
}

static fallible untar_copy(struct untar *untar)
{
	for (;;) {
		const void *at;
		size_t len;
		la_int64_t offset;
		int got = archive_read_data_block(untar->in, &at, &len, &offset);

		if (got == ARCHIVE_EOF)
			return OK;
		if (got < ARCHIVE_WARN)
			return untar_failed(untar, untar->in, "bad_archive");
		if (archive_write_data_block(untar->out, at, len, offset) < ARCHIVE_WARN)
			return untar_failed(untar, untar->out, "cannot_unpack");
	}
}

static bool is_plain(const struct archive_entry *entry)
{
	mode_t type = archive_entry_filetype((struct archive_entry *)entry);

	return archive_entry_hardlink((struct archive_entry *)entry) || S_ISREG(type) ||
	       S_ISDIR(type) || S_ISLNK(type);
}

static fallible untar_place(struct untar *untar, struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);

	if (!name || !is_plain(entry))
		return OK;
	if (strcmp(name, ".") == 0 || strcmp(name, "./") == 0)
		return OK; // the directory itself
	archive_entry_set_perm(entry, archive_entry_perm(entry) & 01777);
	if (archive_write_header(untar->out, entry) < ARCHIVE_WARN)
		return untar_failed(untar, untar->out, "cannot_unpack");
	if (archive_entry_size(entry) > 0)
		TRY(untar_copy(untar));
	if (archive_write_finish_entry(untar->out) < ARCHIVE_WARN)
		return untar_failed(untar, untar->out, "cannot_unpack");
	return OK;
}

static fallible untar_unpack(struct untar *untar)
{
	struct archive_entry *entry;

	// Plain tar only: the box chooses the first bytes, and some of libarchive's filters start
	// programs.
	archive_read_support_format_tar(untar->in);
	if (weak(COPY_FILTERS))
		archive_read_support_filter_all(untar->in);
	archive_write_disk_set_options(untar->out, FLAGS);
	if (archive_read_open(untar->in, untar, NULL, untar_on_read, NULL) < ARCHIVE_WARN)
		return untar_failed(untar, untar->in, "bad_archive");
	for (;;) {
		int got = archive_read_next_header(untar->in, &entry);

		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_WARN)
			return untar_failed(untar, untar->in, "bad_archive");
		TRY(untar_place(untar, entry));
	}
	if (archive_write_close(untar->out) < ARCHIVE_WARN) // times and modes of directories
		return untar_failed(untar, untar->out, "cannot_unpack");
	return OK;
}

fallible untar(const char *dir, untar_read_fn *read, void *arg)
{
	auto_fd here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	on_exit_call(untar_done) struct untar untar = {
		.read = read,
		.arg = arg,
		.in = archive_read_new(),
		.out = archive_write_disk_new(),
	};
	struct err *err;

	if (here < 0 || chdir(dir))
		return err_new(INVALID, "cannot_unpack", "cannot enter '%s': %s", dir,
			       strerror(errno));
	err = untar_unpack(&untar);
	if (fchdir(here) && !err)
		return err_sys(errno, "return to the working directory");
	return err;
}
