// Porcelain version 2: headers "# branch.…", then one entry a record: 1 (changed), 2 (renamed,
// followed by the former path), u (unmerged), ? (untracked). The texts come from a sandbox: a
// record that is malformed ends the status.
#include "daytona/git_output.h"

#define ENTRY_WORDS 8	// before the path, of "1"
#define RENAMED_WORDS 9 // of "2"
#define UNMERGED_WORDS 10

struct git_head {
	struct str branch, upstream;
	bool has_ahead, detached;
	uint64_t ahead, behind;
};

static const char *status_word(char letter)
{
	switch (letter) {
	case '.':
		return "Unmodified";
	case 'M':
	case 'T':
		return "Modified";
	case 'A':
		return "Added";
	case 'D':
		return "Deleted";
	case 'R':
		return "Renamed";
	case 'C':
		return "Copied";
	case 'U':
		return "Updated but unmerged";
	default:
		return "Untracked";
	}
}

static void status_put_file(struct json_out *out, struct str name, const char *staging,
			    const char *worktree, struct str extra)
{
	json_begin(out, '{');
	json_put_str(out, "name", name);
	json_put_text(out, "staging", staging);
	json_put_text(out, "worktree", worktree);
	json_put_str(out, "extra", extra);
	json_end(out, '}');
}

static bool skip_words(struct str *rest, int count)
{
	struct str word;

	for (int i = 0; i < count; i++)
		if (!str_cut(rest, ' ', &word) || !rest->at)
			return false;
	return rest->len > 0;
}

static void head_read(struct str line, struct git_head *head)
{
	struct str key, plus;

	str_cut(&line, ' ', &key);
	if (!line.at)
		return;
	if (str_is(key, "branch.head")) {
		head->detached = str_is(line, "(detached)");
		head->branch = line;
	} else if (str_is(key, "branch.upstream")) {
		head->upstream = line;
	} else if (str_is(key, "branch.ab") && str_cut(&line, ' ', &plus) && line.at) {
		head->has_ahead = str_starts(plus, "+") && str_starts(line, "-") &&
				  str_to_u64(str_skip(plus, 1), 0, INT64_MAX, &head->ahead) &&
				  str_to_u64(str_skip(line, 1), 0, INT64_MAX, &head->behind);
	}
}

// *rest: behind the record, where a former path may be.
static bool status_put_record(struct json_out *out, struct str record, struct str *rest)
{
	struct str path = record, former = {0};
	char kind = record.len ? record.at[0] : 0;
	int words = kind == '1' ? ENTRY_WORDS : kind == '2' ? RENAMED_WORDS : UNMERGED_WORDS;

	if (kind == '?' && record.len > 2) {
		status_put_file(out, str_skip(record, 2), "Untracked", "Untracked", STR(""));
		return true;
	}
	if (kind != '1' && kind != '2' && kind != 'u')
		return false;
	if (record.len < 5 || !skip_words(&path, words))
		return false;
	if (kind == '2' && !str_cut(rest, 0, &former))
		return false;
	if (kind == 'u')
		status_put_file(out, path, "Updated but unmerged", "Updated but unmerged", STR(""));
	else
		status_put_file(out, path, status_word(record.at[2]), status_word(record.at[3]),
				former.at ? former : STR(""));
	return true;
}

bool git_output_status(struct str text, struct json_out *out)
{
	struct git_head head = {0};
	struct str record;

	json_begin(out, '{');
	json_put_begin(out, "fileStatus", '[');
	while (text.len && str_cut(&text, 0, &record)) {
		if (str_starts(record, "# "))
			head_read(str_skip(record, 2), &head);
		else if (!status_put_record(out, record, &text))
			return false;
	}
	json_end(out, ']');
	json_put_str(out, "currentBranch", head.detached ? STR("HEAD") : head.branch);
	json_put_bool(out, "branchPublished", head.upstream.len && head.has_ahead);
	json_put_int(out, "ahead", (int64_t)head.ahead);
	json_put_int(out, "behind", (int64_t)head.behind);
	json_put_bool(out, "detached", head.detached);
	if (head.upstream.len)
		json_put_str(out, "upstream", head.upstream);
	json_end(out, '}');
	return true;
}

void git_output_branches(struct str text, struct json_out *out)
{
	struct str line;

	json_begin(out, '{');
	json_put_begin(out, "branches", '[');
	while (text.len && str_cut(&text, '\n', &line))
		if (line.len)
			json_add_str(out, line);
	json_end(out, ']');
	json_end(out, '}');
}

// "NAME\tURL (fetch)", and the same with (push).
void git_output_remotes(struct str text, struct json_out *out)
{
	struct str line, name;

	json_begin(out, '{');
	json_put_begin(out, "remotes", '[');
	while (text.len && str_cut(&text, '\n', &line)) {
		if (!str_ends(line, " (fetch)") || !str_cut(&line, '\t', &name) || !line.at)
			continue;
		json_begin(out, '{');
		json_put_str(out, "name", name);
		json_put_str(out, "url", (struct str){line.at, line.len - strlen(" (fetch)")});
		json_end(out, '}');
	}
	json_end(out, ']');
	json_end(out, '}');
}

void git_output_history(struct str text, struct json_out *out)
{
	static const char *const keys[] = {"hash", "author", "email", "timestamp", "message"};
	struct str field;

	json_begin(out, '[');
	while (text.len) {
		json_begin(out, '{');
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			json_put_str(out, keys[i],
				     text.at && str_cut(&text, 0, &field) ? field : STR(""));
		json_end(out, '}');
	}
	json_end(out, ']');
}
