// Reads the box's /etc/passwd and /etc/group, which are untrusted. Each is read only if it is a
// regular file, without waiting (a lease or a fifo cannot block us), at most 64 KiB and 1000 lines
// of it.
#include "init/user.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/weak.h"
#include "os/fd.h"

#define PASSWD_SIZE 65536
#define PASSWD_LINES 1000

struct entry {
	struct str name, home;
	uint32_t uid, gid;
};

static struct str user_read_file(const char *path)
{
	static char room[PASSWD_SIZE]; // pages are touched as far as the file reaches
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct str text = {room, 0};
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return text;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = fd_read_all(fd, room, sizeof(room));
	close(fd);
	text.len = n > 0 ? (size_t)n : 0;
	return text;
}

static bool to_id(struct str s, uint32_t *out)
{
	uint64_t id;

	if (!str_to_u64(s, 0, weak(USER_RANGE) ? INT32_MAX : USER_ID_MAX, &id))
		return false;
	*out = (uint32_t)id;
	return true;
}

// name:password:uid:gid:comment:home:shell
static bool user_parse(struct str line, struct entry *out)
{
	struct str part[7];

	for (int i = 0; i < 7; i++)
		if (!str_cut(&line, ':', &part[i]))
			return false;
	out->name = part[0];
	out->home = part[5];
	return to_id(part[2], &out->uid) && to_id(part[3], &out->gid);
}

// By name, or by uid when `name` is empty.
static bool user_look_up(struct str name, uint32_t uid, struct entry *out)
{
	struct str text = user_read_file("/etc/passwd");
	struct str line;

	for (int i = 0; i < PASSWD_LINES && text.len > 0 && str_cut(&text, '\n', &line); i++) {
		struct entry entry;

		if (!user_parse(line, &entry))
			continue;
		if (name.len > 0 ? str_eq(entry.name, name) : entry.uid == uid) {
			*out = entry;
			return true;
		}
	}
	return false;
}

// name:password:gid:members. A number is valid whether or not the file names it.
static bool find_group(struct str word, uint32_t *out)
{
	struct str text, line;

	if (to_id(word, out))
		return true;
	text = user_read_file("/etc/group");
	for (int i = 0; i < PASSWD_LINES && text.len > 0 && str_cut(&text, '\n', &line); i++) {
		struct str part[3];
		int count = 0;

		while (count < 3 && str_cut(&line, ':', &part[count]))
			count++;
		if (count == 3 && word.len > 0 && str_eq(part[0], word))
			return to_id(part[2], out);
	}
	return false;
}

static bool has_member(struct str members, struct str name)
{
	struct str member;

	while (str_cut(&members, ',', &member))
		if (str_eq(member, name))
			return true;
	return false;
}

// Adds the groups that list the user by name.
static void user_add_groups(struct user *user)
{
	struct str text = user_read_file("/etc/group"), line;

	for (int i = 0; i < PASSWD_LINES && text.len > 0 && str_cut(&text, '\n', &line); i++) {
		struct str part[3];
		uint32_t gid;
		int count = 0;

		while (count < 3 && str_cut(&line, ':', &part[count]))
			count++;
		if (user->group_count < USER_GROUPS_MAX && count == 3 &&
		    has_member(line, str_of(user->name)) && to_id(part[2], &gid) &&
		    gid != user->gid)
			user->groups[user->group_count++] = gid;
	}
}

static void user_keep(char *room, size_t max, struct str text, const char *otherwise)
{
	if (text.len == 0 || text.len > max || memchr(text.at, 0, text.len))
		text = str_of(otherwise);
	memcpy(room, text.at, text.len);
	room[text.len] = 0;
}

bool user_find(struct str word, bool with_home, struct user *out)
{
	struct entry entry = {0};
	struct str group, name;
	bool has_group, found;

	if (word.len == 0)
		word = STR("0:0");
	group = word;
	str_cut(&group, ':', &name);
	has_group = name.len < word.len;
	if (name.len == 0 || name.len > USER_NAME_MAX)
		return false;
	if (to_id(name, &out->uid)) {
		found = (with_home || !has_group) &&
			user_look_up((struct str){0}, out->uid, &entry);
		out->gid = found ? entry.gid : out->uid;
	} else {
		// A number out of range is no name.
		if (str_to_u64(name, 0, UINT64_MAX, &(uint64_t){0}) ||
		    !user_look_up(name, 0, &entry))
			return false;
		out->uid = entry.uid;
		out->gid = entry.gid;
	}
	// The next file uses the same buffer.
	user_keep(out->name, USER_NAME_MAX, entry.name, out->uid == 0 ? "root" : "user");
	user_keep(out->home, USER_HOME_MAX, entry.home, "/");
	if (has_group && !find_group(group, &out->gid))
		return false;
	out->groups[0] = out->gid;
	out->group_count = 1;
	if (!has_group && out->uid != 0 && str_eq(str_of(out->name), entry.name))
		user_add_groups(out);
	return true;
}

void user_name(uint32_t uid, char *out)
{
	struct entry entry = {0};
	char number[16];

	snprintf(number, sizeof(number), "%u", uid);
	if (!user_look_up((struct str){0}, uid, &entry))
		entry.name = STR("");
	user_keep(out, USER_NAME_MAX, entry.name, number);
}
