#include "sync/file_list.h"

#include "tap.h"

TEST(paths, "a path is relative, without empty, dot and dot-dot components")
{
	static const char *const good[] = {"a", "a/b", "...", "a\nb", "\xff", "-rf", ".git"};
	static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a"};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK(file_list_is_path(str_of(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!file_list_is_path(str_of(bad[i])));
	CHECK(!file_list_is_path((struct str){"a\0b", 3}));
	CHECK(file_list_is_git(STR(".git")) && file_list_is_git(STR("a/.GIT/b")));
	CHECK(!file_list_is_git(STR("a.git/.gitx")));
}

TEST(state, "a state is read as it was written, and cut at any byte refused")
{
	auto_sync_state state = {0}, again = {0};
	auto_buf text = BUF_INIT(4096), other = BUF_INIT(4096);
	struct listed_file *file;

	state.machine = strdup("m");
	state.worktree = strdup("/a\nb");
	state.has_base = true;
	file = file_list_add(&state.base, STR("x y\n"));
	file->mode = 0755;
	file->size = 1u << 30;
	memset(file->hash, 'a', SHA256_HEX);
	file->stamps[FILE_HOST] = UINT64_MAX;
	file->stamps[FILE_BOX] = 1;
	state.commit = strdup("7 then");
	sync_state_write(&state, &text);
	CHECK_OK(sync_state_read(buf_view(&text), &again));
	sync_state_write(&again, &other);
	CHECK(text.len == other.len && !memcmp(text.at, other.at, text.len));
	CHECK(again.base.at[0].stamps[FILE_HOST] == UINT64_MAX && again.base.at[0].stamps[1] == 1);
	CHECK(!strcmp(again.commit, "7 then"));
	for (size_t len = 0; len < text.len; len++) {
		auto_sync_state part = {0};

		CHECK_ERR(sync_state_read((struct str){text.at, len}, &part), BAD_PEER);
	}
}

TEST(old, "a state that an older cove wrote is read; it knows no file")
{
	static const char hash[] =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	auto_sync_state state = {0};
	auto_buf text = BUF_INIT(4096);

	buf_fmt(&text, "cove-sync 1%cm%c/w%c1%cf 420 3 %s x y%c-%c", 0, 0, 0, 0, hash, 0, 0);
	CHECK_OK(sync_state_read(buf_view(&text), &state));
	CHECK(state.has_base && !state.is_pending && !state.commit);
	CHECK(!strcmp(state.base.at[0].path, "x y") && !state.base.at[0].stamps[FILE_HOST]);
}

TEST(stamps, "a stamp differs when one number of a file does")
{
	const struct file_times times = {1, 2, 3, 4, 5};
	struct file_times others[] = {times, times, times, times, times};

	others[0].inode++;
	others[1].size++;
	others[2].mtime++;
	others[3].ctime--;
	others[4].mode++;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		CHECK(file_stamp(&others[i]) != file_stamp(&times));
	CHECK(file_stamp(&times) == file_stamp(&(struct file_times){1, 2, 3, 4, 5}));
}
