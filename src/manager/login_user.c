// The user is added by file workers of the sandbox: the image needs no program for it. /etc/passwd
// and /etc/group are hostile text: a line is only looked for and appended. The home is made by
// unpacking an archive, since that sets owners. A user of that name that the image has stays as it
// is.
#include "manager/login_user.h"

#include <stdio.h>

#include "base/mem.h"
#include "box/files.h"
#include "codec/tar.h"
#include "loop/closer.h"
#include "loop/pump.h"

#define WAIT_MS 10000
#define TEXT_MAX FILEOP_SMALL
#define MODE 0755
#define WRITABLE 022 // by others than the owner
#define FIELD_NAME 0
#define FIELD_ID 2
#define FIELD_HOME 5

// A field of the first line in which the field `by` is `key`. False: there is no such line.
static bool login_line_find(struct str text, size_t by, const char *key, size_t wanted,
			    struct str *out)
{
	struct str line, field;

	while (text.len && str_cut(&text, '\n', &line)) {
		struct str found = {0};
		bool is_it = false;

		for (size_t i = 0; line.at && str_cut(&line, ':', &field); i++) {
			is_it |= i == by && str_is(field, key);
			if (i == wanted)
				found = field;
		}
		if (!is_it)
			continue;
		*out = found;
		return true;
	}
	return false;
}

// Appends a line unless one has that field.
static fallible login_file_add(const struct files *files, const char *path, size_t by,
			       const char *key, const char *added, struct buf *text)
{
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	struct str found;
	struct err *err = files_read(files, path, text, &fd, &stat);

	if (err && err_kind(err) != ERR_NOT_FOUND)
		return err;
	err_free(err);
	if (fd >= 0)
		return err_new(TOO_LARGE, "file_too_large", "%s is too large", path);
	if (login_line_find(buf_view(text), by, key, by, &found))
		return OK;
	if (text->len && text->at[text->len - 1] != '\n')
		buf_char(text, '\n');
	buf_fmt(text, "%s\n", added);
	if (!buf_ok(text))
		return err_new(TOO_LARGE, "file_too_large", "%s is too large", path);
	return files_write(files, path, FILEOP_PARENTS, FILEOP_KEEP_MODE, buf_view(text));
}

// A directory that belongs to the user.
static fallible login_dir_make(const struct files *files, const char *path)
{
	struct tar_head head = {
		.type = TAR_DIRECTORY,
		.path = str_of(path + 1),
		.target = STR(""),
		.mode = MODE,
		.uid = LOGIN_USER_ID,
		.gid = LOGIN_USER_ID,
		.mtime = loop_now(task_loop()) / 1000,
	};
	auto_free char *room = mem_new(TAR_HEAD_MAX + 2 * (size_t)TAR_BLOCK);
	size_t len = tar_write(&head, room, TAR_HEAD_MAX);
	struct files_walk *walk = NULL;
	struct files_total total;
	struct err *err;
	int fd = -1;

	memset(room + len, 0, 2 * (size_t)TAR_BLOCK);
	TRY(files_unpack(files, "/", FILEOP_OWNERS, &fd, &walk));
	err = pump_put(fd, room, len + 2 * (size_t)TAR_BLOCK);
	closer_drop(&fd);
	if (err) {
		files_drop(walk);
		return err;
	}
	return files_end(walk, &total);
}

// A directory of root alone that commands of the user begin in becomes the user's.
static fallible login_dir_take(const struct files *files, const char *path)
{
	struct fileop_stat stat;

	if (!strcmp(path, "/"))
		return OK;
	TRY(files_mkdir(files, path, true, MODE), "make the directory %s", path);
	TRY(files_stat(files, path, true, &stat));
	return stat.uid == 0 && !(stat.mode & WRITABLE) ? login_dir_make(files, path) : OK;
}

static fallible login_user_add(const struct files *files, const char *name, const char *home,
			       struct buf *passwd)
{
	auto_free char *user = mem_fmt("%s:x:%d:%d::%s:/bin/sh", name, LOGIN_USER_ID, LOGIN_USER_ID,
				       home);
	auto_free char *group = mem_fmt("%s:x:%d:", name, LOGIN_USER_ID);
	auto_free char *id = mem_fmt("%d", LOGIN_USER_ID);
	auto_buf groups = BUF_INIT(TEXT_MAX);

	TRY(login_dir_make(files, home));
	TRY(login_file_add(files, "/etc/group", FIELD_ID, id, group, &groups));
	return login_file_add(files, "/etc/passwd", FIELD_NAME, name, user, passwd);
}

fallible login_user_apply(struct entry *entry)
{
	struct record *record = &entry->record;
	auto_free char *home = mem_fmt("/home/%s", record->login);
	auto_buf passwd = BUF_INIT(TEXT_MAX);
	struct files files = {
		.box = entry->box,
		.user = "",
		.deadline = loop_now(entry->manager->loop) + WAIT_MS,
	};
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	struct str own = {0};
	auto_err err = files_read(&files, "/etc/passwd", &passwd, &fd, &stat);
	bool has = !err && fd < 0 &&
		   login_line_find(buf_view(&passwd), FIELD_NAME, record->login, FIELD_HOME, &own);

	if (!has) {
		buf_clear(&passwd);
		TRY(login_user_add(&files, record->login, home, &passwd));
	}
	snprintf(record->user, sizeof(record->user), "%s", record->login);
	if (record->workdir)
		return has ? OK : login_dir_take(&files, record->workdir);
	record->workdir = own.len > 1 && own.at[0] == '/' ? mem_dup(own.at, own.len)
							  : take_ptr(home);
	return OK;
}
