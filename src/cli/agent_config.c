// Agents by name. The file belongs to the user of this program and is trusted; its text is read by
// lines. No word of it is parsed by a shell.
#include "cli/agent_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/stdio.h"

#define CONFIG_MAX (1u << 20)
#define WORDS_MAX 256

static const struct {
	const char *name, *argv, *session, *install;
} known[] = {
	{"claude",
	 "claude -p {prompt} --output-format stream-json --verbose [--resume {session}] "
	 "[--model {model}]",
	 "session_id", "command -v claude || npm install -g @anthropic-ai/claude-code\n"},
	{"codex", "codex exec --json [-m {model}] [resume {session}] {prompt}", "thread_id",
	 "command -v codex || npm install -g @openai/codex\n"},
	{"opencode", "opencode run --format json [--session {session}] [--model {model}] {prompt}",
	 "sessionID", "command -v opencode || npm install -g opencode-ai\n"},
};

static void agent_config_drop_list(char ***list)
{
	if (*list)
		mem_free_list(*list);
	*list = NULL;
}

void agent_config_done(struct agent_config *config)
{
	free(config->argv);
	free(config->template);
	free(config->image);
	free(config->setup);
	free(config->install);
	free(config->session);
	free(config->roots);
	agent_config_drop_list(&config->allow);
	agent_config_drop_list(&config->secrets);
	*config = (struct agent_config){0};
}

// Words with blanks or commas between.
static char **agent_config_list(struct str text)
{
	char **list = mem_new((WORDS_MAX + 1) * sizeof(*list));
	size_t count = 0;

	while (text.len && count < WORDS_MAX) {
		size_t len = 0;

		while (len < text.len && !strchr(" \t,", text.at[len]))
			len++;
		if (len)
			list[count++] = mem_dup(text.at, len);
		text = str_skip(text, len < text.len ? len + 1 : len);
	}
	list[count] = NULL;
	return list;
}

static fallible agent_config_bad(unsigned line, const char *why)
{
	return err_hint(
		err_new(INVALID, "bad_agents", "line %u of agents.conf %s", line, why),
		"sections are [agent] with roots = DIRECTORIES, and [agent NAME]; lines of "
		"these are argv, template, image, setup, allow, secrets or session = VALUE");
}

static fallible agent_config_set(struct agent_config *out, struct str key, struct str value,
				 unsigned line)
{
	const struct {
		const char *key;
		char **text;
		char ***list;
	} rows[] = {
		{"argv", &out->argv, NULL},	  {"template", &out->template, NULL},
		{"image", &out->image, NULL},	  {"setup", &out->setup, NULL},
		{"session", &out->session, NULL}, {"allow", NULL, &out->allow},
		{"secrets", NULL, &out->secrets}, {"roots", &out->roots, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!str_is(key, rows[i].key))
			continue;
		if (rows[i].text) {
			free(*rows[i].text);
			*rows[i].text = mem_dup(value.at, value.len);
		} else {
			agent_config_drop_list(rows[i].list);
			*rows[i].list = agent_config_list(value);
		}
		return OK;
	}
	return agent_config_bad(line, "has an unknown name");
}

fallible agent_config_read(struct str text, const char *name, struct agent_config *out, bool *found)
{
	auto_free char *head = *name ? mem_fmt("[agent %s]", name) : mem_str("[agent]");
	bool is_inside = false;
	struct str line;

	*found = false;
	for (unsigned number = 1; text.len && str_cut(&text, '\n', &line); number++) {
		struct str key;

		line = str_trim(line);
		if (!line.len || *line.at == '#')
			continue;
		if (*line.at == '[') {
			if (!str_is(line, "[agent]") &&
			    (!str_starts(line, "[agent ") || line.at[line.len - 1] != ']'))
				return agent_config_bad(number, "is no section");
			is_inside = str_is(line, head);
			*found |= is_inside;
			continue;
		}
		if (!str_cut(&line, '=', &key) || !line.at)
			return agent_config_bad(number, "has no '='");
		if (is_inside)
			TRY(agent_config_set(out, str_trim(key), str_trim(line), number));
	}
	return OK;
}

// Reads the section of the file; *out_path names the file.
static fallible agent_config_file(const char *name, struct agent_config *out, bool *found,
				  char **out_path)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	auto_free char *base = xdg && *xdg == '/' ? mem_str(xdg)
						  : mem_fmt("%s/.config", home ? home : "");
	char *path = *out_path = mem_fmt("%s/cove/agents.conf", base);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_buf text = BUF_INIT(CONFIG_MAX);
	bool fits = true;

	*found = false;
	if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
		return err_new(INVALID, "bad_agents", "cannot read '%s': %s", path,
			       strerror(errno));
	if (fd < 0)
		return OK;
	TRY(stdio_read_all(fd, &text, &fits), "read '%s'", path);
	if (!fits)
		return err_new(INVALID, "bad_agents", "'%s' is too large", path);
	return agent_config_read(buf_view(&text), name, out, found);
}

fallible agent_config_roots(char **out)
{
	auto_agent_config config = {0};
	auto_free char *path = NULL;
	bool found;

	TRY(agent_config_file("", &config, &found, &path));
	*out = take_ptr(config.roots);
	return OK;
}

fallible agent_config_load(const char *name, struct agent_config *out)
{
	auto_free char *path = NULL;
	bool found;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		out->argv = mem_str(known[i].argv);
		out->session = mem_str(known[i].session);
		out->install = mem_str(known[i].install);
	}
	TRY(agent_config_file(name, out, &found, &path));
	if (out->argv)
		return OK;
	return err_hint(err_new(NOT_FOUND, "no_agent", "there is no agent '%s'%s", name,
				found ? " with a line argv" : ""),
			"claude, codex and opencode are known; '%s' may have [agent %s]", path,
			name);
}

// The value of a placeholder; NULL: the word is none, or has no value.
static const char *agent_config_value(const char *word, const char *const values[3], bool *is_one)
{
	static const char *const names[] = {"{prompt}", "{session}", "{model}"};

	*is_one = false;
	for (size_t i = 0; i < 3; i++)
		if (!strcmp(word, names[i])) {
			*is_one = true;
			return values[i];
		}
	return NULL;
}

char **agent_config_words(const struct agent_config *config, const char *prompt,
			  const char *session, const char *model)
{
	const char *const values[] = {prompt, session, model};
	char **argv = mem_new((WORDS_MAX + 1) * sizeof(*argv));
	struct str rest = str_of(config->argv), part;
	size_t count = 0, group = 0;
	bool is_grouped = false, is_left_out = false;

	while (rest.len && count < WORDS_MAX && str_cut(&rest, ' ', &part)) {
		auto_free char *word = NULL;
		bool begins = part.len && *part.at == '[', ends, is_one;
		const char *value;

		if (!part.len)
			continue;
		if (begins) {
			is_grouped = true;
			is_left_out = false;
			group = count;
			part = str_skip(part, 1);
		}
		ends = is_grouped && part.len && part.at[part.len - 1] == ']';
		part.len -= ends;
		word = mem_dup(part.at, part.len);
		value = agent_config_value(word, values, &is_one);
		is_left_out |= is_one && !value;
		if (!is_one || value)
			argv[count++] = mem_str(value ? value : word);
		if (!ends)
			continue;
		while (is_left_out && count > group)
			free(argv[--count]);
		is_grouped = false;
	}
	argv[count] = NULL;
	return argv;
}
