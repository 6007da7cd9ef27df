#include "os/path.h"

#include "base/auto.h"
#include "scratch.h"
#include "tap.h"

TEST(no_way_out, "neither dots, nor a slash, nor a link lead out")
{
	static const char *const escapes[] = {"../etc/passwd", "/etc/passwd", "out/passwd"};
	auto_fd root = -1;
	auto_fd fd = -1;

	CHECK_OK(path_dir(scratch, "cage", 0755, &root));
	CHECK(symlinkat("/etc", root, "out") == 0);
	CHECK_OK(path_write(root, "note", 0644, "hello"));
	for (size_t i = 0; i < 3; i++)
		CHECK_ERR(path_open(root, escapes[i], O_RDONLY, &fd), FORBIDDEN);
	CHECK_ERR(path_open(root, "nothing", O_RDONLY, &fd), NOT_FOUND);
	CHECK(fd == -1);
	CHECK_OK(path_open(root, "note", O_RDONLY, &fd));
}

TEST(read_write, "what is written is read, and a ceiling holds")
{
	auto_buf text = BUF_INIT(8);
	auto_buf little = BUF_INIT(3);

	CHECK_OK(path_write(scratch, "five", 0640, "12345"));
	CHECK_OK(path_read(scratch, "five", &text));
	CHECK_STR(text.at, "12345");
	CHECK_ERR(path_read(scratch, "five", &little), TOO_LARGE);
	CHECK_ERR(path_read(scratch, "six", &text), NOT_FOUND);
}

TEST(wide, "a directory of 100,000 entries is removed")
{
	auto_fd dir = -1;
	char name[32];

	CHECK_OK(path_dir(scratch, "wide", 0755, &dir));
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		CHECK(mknodat(dir, name, S_IFREG | 0600, 0) == 0);
	}
	CHECK_OK(path_remove(scratch, "wide"));
	CHECK(faccessat(scratch, "wide", F_OK, 0) < 0 && errno == ENOENT);
}

TEST(deep, "5,000 nested directories with files in them are removed with few fds open")
{
	auto_fd dir = -1;

	CHECK_OK(path_dir(scratch, "deep", 0755, &dir));
	for (int i = 0; i < 5000; i++) {
		int below = -1;

		CHECK(mknodat(dir, "f", S_IFREG, 0) == 0 && mknodat(dir, ".up-0", S_IFREG, 0) == 0);
		CHECK_OK(path_dir(dir, "d", 0700, &below));
		close(dir);
		dir = below;
	}
	CHECK_OK(path_remove(scratch, "deep"));
	CHECK(faccessat(scratch, "deep", F_OK, 0) < 0);
}

TEST(links_stay, "removal does not follow links, and what is absent is removed already")
{
	auto_fd dir = -1;

	CHECK(scratch_run(
		      "mkdir -p keep/x tree/sub && touch keep/x/file && ln -s ../keep tree/a && "
		      "ln -s ../../keep tree/sub/b") == 0);
	CHECK_OK(path_remove(scratch, "tree"));
	CHECK_OK(path_remove(scratch, "tree"));
	CHECK_OK(path_open(scratch, "keep/x/file", O_RDONLY, &dir));
}

TEST(copies, "a copied tree has the same names, modes, owners, links, hard links and holes")
{
	struct path_copied sum = {0};
	auto_fd from = -1;
	auto_fd to = -1;

	CHECK(scratch_run("mkdir -p src/a/b && echo one > src/a/one && ln src/a/one src/a/b/two && "
			  "ln -s nowhere src/l && truncate -s 100M src/sparse && "
			  "chown 33:44 src/a/one && chmod 4751 src/a/one && chmod 1777 src/a/b && "
			  "mkfifo src/pipe && touch -d 2001-01-01 src/a") == 0);
	CHECK_OK(path_dir(scratch, "src", 0755, &from));
	CHECK_OK(path_dir(scratch, "dst", 0755, &to));
	CHECK_OK(path_copy(from, to, &sum));
	CHECK(sum.files == 4);
	CHECK(scratch_run("rm src/pipe; for d in src dst; do (cd $d; find . -mindepth 1 "
			  "-printf '%P %y %m %U %G %n %l %T@ %s\\n' | grep -v '^a.*d ' | sort; "
			  "du -k sparse) > $d.list; done; cmp src.list dst.list && "
			  "test dst/a/one -ef dst/a/b/two && cmp src/a/one dst/a/one") == 0);
}

TEST(replaced, "a file of ours is replaced as a whole, and nothing stays beside it")
{
	auto_buf text = BUF_INIT(64);
	struct stat st;

	CHECK_OK(path_write_sync(scratch, "whole", 0600, STR("first")));
	// What a crash left of another try.
	CHECK_OK(path_write(scratch, "whole~", 0644, "half"));
	CHECK_OK(path_write_sync(scratch, "whole", 0640, STR("second")));
	CHECK_OK(path_read(scratch, "whole", &text));
	CHECK(str_is(buf_view(&text), "second"));
	CHECK(fstatat(scratch, "whole", &st, 0) == 0 && (st.st_mode & 07777) == 0640);
	CHECK(fstatat(scratch, "whole~", &st, 0) && errno == ENOENT);
	// A directory cannot be replaced by a file; it stays, and so does nothing else.
	CHECK(mkdirat(scratch, "dir", 0755) == 0);
	CHECK_ERR(path_write_sync(scratch, "dir", 0600, STR("x")), INTERNAL);
	CHECK(fstatat(scratch, "dir~", &st, 0) && errno == ENOENT);
}
