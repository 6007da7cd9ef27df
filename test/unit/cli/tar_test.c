#include "cli/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "os/path.h"
#include "tap.h"

static int put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

// b/z, b/a -> z (hard), a -> b/z (soft), a socket's stand-in (a fifo).
static int tree(char *path, size_t size)
{
	int root;

	snprintf(path, size, "/tmp/cove-tar-%d", (int)getpid());
	if (mkdir(path, 0755))
		return -1;
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || mkdirat(root, "b", 0700) || put(root, "b/z", "hello") ||
	    linkat(root, "b/z", root, "b/a", 0) || symlinkat("b/z", root, "a") ||
	    mkfifoat(root, "fifo", 0600))
		return -1;
	return root;
}

static void describe(int fd, struct buf *out)
{
	struct archive *tar = archive_read_new();
	struct archive_entry *entry;

	archive_read_support_format_tar(tar);
	archive_read_open_fd(tar, fd, 10240);
	while (archive_read_next_header(tar, &entry) == ARCHIVE_OK) {
		const char *link = archive_entry_hardlink(entry);

		buf_fmt(out, "%s %o%s%s%s%s\n", archive_entry_pathname(entry),
			archive_entry_mode(entry), link ? " = " : "", link ? link : "",
			archive_entry_uname(entry) && *archive_entry_uname(entry) ? " named" : "",
			archive_entry_size(entry) == 5 ? " 5" : "");
	}
	archive_read_free(tar);
}

TEST(sorted, "a tree is packed in order, links as links, special files not at all, ids as numbers")
{
	char path[64];
	auto_fd root = tree(path, sizeof(path));
	auto_fd parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd fd = -1;
	auto_buf text = BUF_INIT(4096);
	struct tar *tar = NULL;

	CHECK(root >= 0);
	CHECK_OK(tar_start(path, NULL, NULL, &tar, &fd));
	describe(fd, &text);
	CHECK_OK(tar_end(tar));
	CHECK_OK(path_remove(parent, path + 5));
	CHECK_STR(text.at ? text.at : "", "a 120777\nb/ 40700\nb/a 100640 5\nb/z 640 = b/a\n");
}

TEST(reader_gone, "a closed reader ends the walk")
{
	struct tar *tar = NULL;
	int fd = -1;

	signal(SIGPIPE, SIG_IGN);
	CHECK_OK(tar_start("/usr/bin", NULL, NULL, &tar, &fd));
	close(fd);
	auto_err err = tar_end(tar);

	CHECK(err && err_kind(err) == ERR_CANCELLED);
}

TEST(no_dir, "a path that is no directory is refused")
{
	struct tar *tar = NULL;
	int fd = -1;

	CHECK_ERR(tar_start("/etc/passwd", NULL, NULL, &tar, &fd), INVALID);
	CHECK_ERR(tar_start("/nonexistent", NULL, NULL, &tar, &fd), INVALID);
}
