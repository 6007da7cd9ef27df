// Walks a worktree over directory descriptors; no symbolic link is followed. The rules, the nearest
// first: the .gitignore files, info/exclude, core.excludesFile. Below an ignored directory only
// tracked files travel. A rule file that cannot be read is an error: without it, a file that was
// meant to stay could leave the host.
//
// Of git's configuration core.excludesFile, user.name and user.email are read, by a small reader of
// its own. include.path is not followed.
#include "sync/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "codec/ignore.h"
#include "os/path.h"
#include "sync/git_index.h"

#define DEPTH_MAX 256
#define RULES_MAX (1 << 20)
#define CONFIG_MAX (1 << 20)
#define INDEX_MAX (512 << 20)
#define PIECE (256 * 1024)
// A file is read again by the next scan if it changed less than this before the scan: clocks of
// files are coarse, to whole seconds on some, and those of file servers may be late.
#define FRESH_NS 2000000000

struct scan_rules {
	const struct scan_rules *up;
	struct str rules;
	size_t base; // length of the path of the directory, with its slash
};

struct scan {
	const struct scan_options *options;
	struct file_list *out;
	struct file_list tracked;
	struct buf exclude, excludes_file;
	int64_t begun; // wall clock, ns
};

static void scan_done(struct scan *scan)
{
	file_list_done(&scan->tracked);
	buf_done(&scan->exclude);
	buf_done(&scan->excludes_file);
}

static fallible scan_failed(const char *path, int errnum)
{
	return err_new(INVALID, "cannot_scan", "cannot read '%s': %s", path, strerror(errnum));
}

// Reads a whole regular file; a missing one is empty.
static fallible scan_read(int dir, const char *name, int flags, struct buf *out)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			       ? OK
			       : scan_failed(name, errno);
	if (fstat(fd, &st))
		return scan_failed(name, errno);
	if (!S_ISREG(st.st_mode))
		return OK;
	do {
		char *room = buf_space(out, 65536);

		if (!room)
			return err_new(TOO_LARGE, "cannot_scan", "'%s' is too large", name);
		got = read(fd, room, 65536);
		if (got < 0)
			return scan_failed(name, errno);
		buf_grew(out, (size_t)got);
	} while (got > 0);
	return OK;
}

// --------------------------------------------------------------------------- the repository

struct scan_key {
	const char *section; // "[core]"
	const char *name;
};

// The last value of a key in a configuration file of git; NULL: none. The caller's.
static char *scan_config_value(struct str text, const struct scan_key *wanted)
{
	const struct str section = str_of(wanted->section);
	char *value = NULL;
	bool is_inside = false;
	struct str line;

	while (str_cut(&text, '\n', &line)) {
		struct str key;

		line = str_trim(line);
		if (line.len && line.at[line.len - 1] == '\r')
			line.len--;
		if (line.len && *line.at == '[') {
			is_inside = line.len >= section.len &&
				    str_eq_nocase((struct str){line.at, section.len}, section);
			line = str_trim(str_skip(line, is_inside ? section.len : line.len));
		}
		if (!is_inside || !str_cut(&line, '=', &key) || !line.at ||
		    !str_eq_nocase(str_trim(key), str_of(wanted->name)))
			continue;
		line = str_trim(line);
		if (line.len > 1 && *line.at == '"' && line.at[line.len - 1] == '"')
			line = (struct str){line.at + 1, line.len - 2};
		free(value);
		value = mem_dup(line.at, line.len);
	}
	return value;
}

static fallible scan_config(int dir, const char *path, const struct scan_key *wanted, char **value)
{
	auto_buf text = BUF_INIT(CONFIG_MAX);
	char *found;

	TRY(scan_read(dir, path, 0, &text));
	found = scan_config_value(buf_view(&text), wanted);
	if (!found)
		return OK;
	free(*value);
	*value = found;
	return OK;
}

// The user's git/ directory. The caller's.
static char *scan_user_directory(void)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");

	return xdg && *xdg ? mem_fmt("%s/git", xdg) : mem_fmt("%s/.config/git", home ? home : "");
}

// A value of the user's configuration, or of the repository's; *value stays where there is none.
static fallible scan_setting(int common, const struct scan_key *wanted, char **value)
{
	const char *home = getenv("HOME");
	auto_free char *user = mem_fmt("%s/.gitconfig", home ? home : "");
	auto_free char *base = scan_user_directory();
	auto_free char *config = mem_fmt("%s/config", base);

	TRY(scan_config(AT_FDCWD, config, wanted, value));
	TRY(scan_config(AT_FDCWD, user, wanted, value));
	return common >= 0 ? scan_config(common, "config", wanted, value) : OK;
}

// The user's rules, named by the user's configuration or the repository's.
static fallible scan_user_rules(struct scan *scan, int common)
{
	static const struct scan_key wanted = {"[core]", "excludesfile"};
	const char *home = getenv("HOME");
	auto_free char *base = scan_user_directory();
	auto_free char *value = mem_fmt("%s/ignore", base);
	auto_free char *path = NULL;

	TRY(scan_setting(common, &wanted, &value));
	path = str_starts(str_of(value), "~/") ? mem_fmt("%s%s", home ? home : "", value + 1)
					       : mem_str(value);
	return path[0] == '/' ? scan_read(AT_FDCWD, path, 0, &scan->excludes_file) : OK;
}

// The text of a file of one line without its end; "" if there is none.
static fallible scan_line(int dir, const char *name, char **out)
{
	auto_buf text = BUF_INIT(PATH_MAX + 64 * 1024);

	TRY(scan_read(dir, name, 0, &text));
	*out = mem_dup(text.len ? text.at : "", text.len);
	(*out)[strcspn(*out, "\r\n")] = 0;
	return OK;
}

// Opens the repository's directory, which a linked worktree or a submodule has elsewhere, and the
// one with the configuration. -1: this is no repository.
static fallible scan_open_git(int root, int *out_git, int *out_common)
{
	auto_fd git = openat(root, ".git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free char *link = NULL;
	auto_free char *common = NULL;

	if (git < 0) {
		TRY(scan_line(root, ".git", &link));
		if (!str_starts(str_of(link), "gitdir: "))
			return OK;
		git = openat(root, link + 8, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (git < 0)
			return scan_failed(".git", errno);
	}
	TRY(scan_line(git, "commondir", &common));
	*out_common = openat(git, *common ? common : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*out_common < 0)
		return scan_failed(".git", errno);
	*out_git = take_fd(&git);
	return OK;
}

static fallible scan_repository(struct scan *scan, int root)
{
	auto_fd git = -1;
	auto_fd common = -1;
	auto_buf index = BUF_INIT(INDEX_MAX);

	TRY(scan_open_git(root, &git, &common));
	TRY(scan_user_rules(scan, common));
	if (git < 0)
		return OK;
	TRY(scan_read(common, "info/exclude", 0, &scan->exclude));
	TRY(scan_read(git, "index", 0, &index));
	return index.len ? git_index_read(buf_view(&index), &scan->tracked) : OK;
}

// ------------------------------------------------------------------------------------ files

static fallible scan_too_large(const char *path, uint64_t size, uint64_t max)
{
	return err_hint(err_new(TOO_LARGE, "sync_file_too_large",
				"'%s' has %llu bytes, and the limit is %llu", path,
				(unsigned long long)size, (unsigned long long)max),
			"--max-file SIZE sets another limit; a rule in .gitignore leaves the file "
			"out");
}

static fallible scan_content(int fd, const char *path, uint64_t file_max, struct listed_file *out)
{
	auto_free char *room = mem_new(PIECE);
	struct sha256 hash;

	sha256_begin(&hash);
	out->size = 0;
	for (;;) {
		ssize_t got = read(fd, room, PIECE);

		if (got < 0)
			return scan_failed(path, errno);
		if (got == 0)
			break;
		out->size += (uint64_t)got;
		if (out->size > file_max)
			return scan_too_large(path, out->size, file_max);
		sha256_add(&hash, room, (size_t)got);
	}
	sha256_end(&hash, out->hash);
	return OK;
}

fallible scan_file(int dir, const char *name, const char *path, uint64_t file_max,
		   struct listed_file *out, bool *found)
{
	auto_fd fd = -1;
	struct stat st;

	*found = false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK : scan_failed(path, errno);
	out->is_link = S_ISLNK(st.st_mode);
	out->mode = out->is_link ? 0 : st.st_mode & 0777;
	if (out->is_link) {
		auto_free char *target = mem_new(PATH_MAX);
		ssize_t len = readlinkat(dir, name, target, PATH_MAX);
		struct sha256 hash;

		if (len < 0)
			return errno == ENOENT || errno == EINVAL ? OK : scan_failed(path, errno);
		sha256_begin(&hash);
		sha256_add(&hash, target, (size_t)len);
		sha256_end(&hash, out->hash);
		out->size = (uint64_t)len;
		*found = true;
		return OK;
	}
	if (!S_ISREG(st.st_mode))
		return OK;
	if ((uint64_t)st.st_size > file_max)
		return scan_too_large(path, (uint64_t)st.st_size, file_max);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? OK : scan_failed(path, errno);
	if (fstat(fd, &st))
		return scan_failed(path, errno);
	if (!S_ISREG(st.st_mode))
		return OK;
	*found = true;
	return scan_content(fd, path, file_max, out);
}

// -------------------------------------------------------------------------------------- walk

static enum ignore_verdict scan_judge(struct str rules, struct str path, bool is_directory)
{
	return rules.len ? ignore_judge(rules, path, is_directory) : IGNORE_SILENT;
}

static bool scan_is_ignored(const struct scan *scan, const struct scan_rules *rules,
			    const char *path, bool is_directory)
{
	enum ignore_verdict verdict = IGNORE_SILENT;

	for (; rules && verdict == IGNORE_SILENT; rules = rules->up)
		verdict = scan_judge(rules->rules, str_skip(str_of(path), rules->base),
				     is_directory);
	if (verdict == IGNORE_SILENT)
		verdict = scan_judge(buf_view(&scan->exclude), str_of(path), is_directory);
	if (verdict == IGNORE_SILENT)
		verdict = scan_judge(buf_view(&scan->excludes_file), str_of(path), is_directory);
	return verdict == IGNORE_OUT;
}

struct scan_place {
	int dir;
	const char *prefix; // "" or "a/b/"
	const struct scan_rules *rules;
	bool ignored;
	int depth;
};

static fallible scan_directory(struct scan *scan, const struct scan_place *place);

static int64_t scan_ns(const struct timespec *time)
{
	return (int64_t)((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec);
}

// Fills in a file that is known by its stamp.
static bool scan_is_known(const struct scan *scan, const char *path, const struct stat *st,
			  uint64_t stamp, struct listed_file *out)
{
	const struct file_list *known = scan->options->known;
	const struct listed_file *old = known ? file_list_find(known, path) : NULL;

	if (!old || old->is_link || !S_ISREG(st->st_mode) || old->stamps[FILE_HOST] != stamp ||
	    (uint64_t)st->st_size > scan->options->file_max)
		return false;
	out->mode = old->mode;
	out->size = old->size;
	memcpy(out->hash, old->hash, sizeof(out->hash));
	return true;
}

// `st`: before the file is read, so that a change meanwhile is a change of its stamp.
static fallible scan_add(struct scan *scan, int dir, const char *name, const char *path,
			 const struct stat *st)
{
	const struct file_times times = {st->st_ino, (uint64_t)st->st_size, scan_ns(&st->st_mtim),
					 scan_ns(&st->st_ctim), st->st_mode};
	struct listed_file file = {.path = NULL};
	struct listed_file *added;
	uint64_t stamp = file_stamp(&times);
	bool found = scan_is_known(scan, path, st, stamp, &file);

	if (!found)
		TRY(scan_file(dir, name, path, scan->options->file_max, &file, &found));
	if (!found)
		return OK;
	if (scan->out->count >= scan->options->count_max)
		return err_hint(err_new(TOO_LARGE, "sync_too_many_files",
					"there are more than %llu files; '%s' is one too many",
					(unsigned long long)scan->options->count_max, path),
				"--max-files NUMBER sets another limit");
	added = file_list_add(scan->out, str_of(path));
	file.path = added->path;
	file.content = FILE_LIST_NO_CONTENT;
	if (!file.is_link && times.ctime < scan->begun - FRESH_NS)
		file.stamps[FILE_HOST] = stamp;
	*added = file;
	return OK;
}

static fallible scan_entry(struct scan *scan, const struct scan_place *place, const char *name)
{
	auto_free char *path = mem_fmt("%s%s", place->prefix, name);
	bool is_directory, ignored;
	auto_fd fd = -1;
	struct stat st;

	if (place->depth == 0 && str_starts(str_of(name), FILE_LIST_STAGE))
		return OK;
	if (str_eq_nocase(str_of(name), STR(".git"))) {
		if (place->depth > 0)
			scan->options->note(scan->options->arg, SCAN_REPOSITORY, path);
		return OK;
	}
	if (!file_list_is_path(str_of(path)))
		return err_new(INVALID, "cannot_scan", "the path '%s' is too long", path);
	if (fstatat(place->dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK : scan_failed(path, errno);
	is_directory = S_ISDIR(st.st_mode);
	ignored = place->ignored || scan_is_ignored(scan, place->rules, path, is_directory);
	if (!is_directory) {
		if (ignored && !file_list_find(&scan->tracked, path))
			return OK;
		if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
			return scan_add(scan, place->dir, name, path, &st);
		scan->options->note(scan->options->arg, SCAN_SPECIAL, path);
		return OK;
	}
	if (ignored && !file_list_has_beneath(&scan->tracked, path))
		return OK;
	if (place->depth + 1 > DEPTH_MAX)
		return err_new(INVALID, "cannot_scan", "'%s' is nested too deeply", path);
	fd = openat(place->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? OK : scan_failed(path, errno);
	{
		auto_free char *prefix = mem_fmt("%s/", path);

		return scan_directory(scan, &(struct scan_place){fd, prefix, place->rules, ignored,
								 place->depth + 1});
	}
}

static fallible scan_directory(struct scan *scan, const struct scan_place *place)
{
	auto_buf text = BUF_INIT(RULES_MAX);
	struct scan_rules rules = {.up = place->rules, .base = strlen(place->prefix)};
	struct scan_place inner = *place;
	auto_dir list = NULL;
	struct dirent *entry;

	TRY(scan_read(place->dir, ".gitignore", O_NOFOLLOW, &text));
	if (text.len) {
		rules.rules = buf_view(&text);
		inner.rules = &rules;
	}
	list = path_list(place->dir, ".");
	if (!list)
		return scan_failed(*place->prefix ? place->prefix : ".", errno);
	while ((entry = path_next(list)))
		TRY(scan_entry(scan, &inner, entry->d_name));
	return errno ? scan_failed(*place->prefix ? place->prefix : ".", errno) : OK;
}

fallible scan_worktree(int root, const struct scan_options *options, struct file_list *out)
{
	on_exit_call(scan_done) struct scan scan = {
		.options = options,
		.out = out,
		.exclude = BUF_INIT(RULES_MAX),
		.excludes_file = BUF_INIT(RULES_MAX),
	};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	scan.begun = scan_ns(&now);
	TRY(scan_repository(&scan, root));
	TRY(scan_directory(&scan, &(struct scan_place){root, "", NULL, false, 0}));
	file_list_sort(out);
	return OK;
}

fallible scan_identity(int root, char **out_name, char **out_email)
{
	static const struct scan_key keys[] = {{"[user]", "name"}, {"[user]", "email"}};
	auto_fd git = -1;
	auto_fd common = -1;

	TRY(scan_open_git(root, &git, &common));
	TRY(scan_setting(common, &keys[0], out_name));
	return scan_setting(common, &keys[1], out_email);
}
