// Writes file metadata as JSON and parses modes. Modes are given in octal or as nine letters, in
// the notation of ls(1); a mode beyond 07777 is refused.
#include "toolbox/files_entry.h"

#include <stdio.h>

static const char letters[] = "rwxrwxrwx";

// Nine letters; set-id and sticky bits are shown as ls(1) shows them.
static void files_entry_spell(uint32_t mode, char out[10])
{
	for (int i = 0; i < 9; i++)
		out[i] = mode >> (8 - i) & 1 ? letters[i] : '-';
	if (mode & 04000)
		out[2] = mode & 0100 ? 's' : 'S';
	if (mode & 02000)
		out[5] = mode & 0010 ? 's' : 'S';
	if (mode & 01000)
		out[8] = mode & 0001 ? 't' : 'T';
	out[9] = 0;
}

static bool files_entry_octal(struct str text, uint32_t *out)
{
	uint32_t mode = 0;

	if (!text.len || text.len > 5)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '7')
			return false;
		mode = mode << 3 | (uint32_t)(text.at[i] - '0');
	}
	if (mode > 07777)
		return false;
	*out = mode;
	return true;
}

bool entry_mode(struct str text, uint32_t *out)
{
	uint32_t mode = 0;

	if (text.len != 9)
		return files_entry_octal(text, out);
	for (int i = 0; i < 9; i++) {
		if (text.at[i] != letters[i] && text.at[i] != '-')
			return false;
		mode |= (uint32_t)(text.at[i] != '-') << (8 - i);
	}
	*out = mode;
	return true;
}

void entry_put_stat(struct json_out *out, const struct fileop_stat *stat)
{
	static const char *const words[] = {"file", "directory", "symlink", "other"};
	char mode[10];

	files_entry_spell(stat->mode, mode);
	json_put_text(out, "type", words[stat->type]);
	json_put_int(out, "size", (int64_t)stat->size);
	json_put_time(out, "modifiedAt", stat->mtime_us / 1000);
	json_put_text(out, "mode", mode);
	json_key(out, "permissions");
	json_begin(out, '{');
	json_put_bool(out, "readable", stat->mode & 0400);
	json_put_bool(out, "writable", stat->mode & 0200);
	json_put_bool(out, "executable", stat->mode & 0100);
	json_end(out, '}');
}

static void put_octal(struct json_out *out, uint32_t mode)
{
	char text[8];

	snprintf(text, sizeof(text), "%04o", mode & 07777);
	json_put_text(out, "octal", text);
}

void entry_put_owner(struct json_out *out, const struct fileop_stat *stat)
{
	put_octal(out, stat->mode);
	json_put_int(out, "uid", stat->uid);
	json_put_int(out, "gid", stat->gid);
	json_put_int(out, "links", stat->links);
	json_put_int(out, "inode", (int64_t)stat->inode);
	json_put_time(out, "changedAt", stat->ctime_us / 1000);
}

void entry_put_mode(struct json_out *out, uint32_t mode)
{
	char text[10];

	files_entry_spell(mode, text);
	json_put_text(out, "mode", text);
	put_octal(out, mode);
}
