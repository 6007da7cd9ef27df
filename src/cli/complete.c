// Shell completions, generated from the table. A placeholder of the table says what completes it:
// BOX, EXECUTION, TEMPLATE, FILE, DIR, COMMAND, VERB, or the choices themselves ("bash|zsh|fish").
#include "base/mem.h"
#include "cli/call.h"

static bool is_shown(const struct verb *verb)
{
	return !(verb->flags & VERB_HIDDEN);
}

// The group of a two-word verb, owned by the caller; NULL for a simple one.
static char *group_of(const struct verb *verb)
{
	const char *blank = strchr(verb->name, ' ');

	return blank ? mem_dup(verb->name, (size_t)(blank - verb->name)) : NULL;
}

// True for the first verb of its group, and for every simple one.
static bool leads(const struct grammar *grammar, const struct verb *verb)
{
	auto_free char *group = group_of(verb);

	for (const struct verb *v = grammar->verbs; group && v != verb; v++)
		if (str_starts(str_of(v->name), group))
			return false;
	return true;
}

// A shell word in single quotes; `special` characters get a backslash inside.
static void complete_quote(struct buf *out, const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'')
			buf_text(out, "'\\''");
		else if (strchr(special, *text))
			buf_fmt(out, "\\%c", *text);
		else
			buf_char(out, *text);
	}
}

// Names on the first level, or within a group; descriptions follow `mark`, if any.
static void first_words(const struct grammar *grammar, struct buf *out)
{
	for (const struct verb *v = grammar->verbs; v->name; v++)
		if (is_shown(v) && leads(grammar, v))
			buf_fmt(out, " %.*s", (int)strcspn(v->name, " "), v->name);
}

static void second_words(const struct grammar *grammar, const char *group, struct buf *out)
{
	for (const struct verb *v = grammar->verbs; v->name; v++)
		if (str_starts(str_of(v->name), group) && strchr(v->name, ' '))
			buf_fmt(out, " %s", strchr(v->name, ' ') + 1);
}

static void complete_options_of(const struct grammar *grammar, const struct verb *verb,
				struct buf *out)
{
	for (const struct option *o = grammar->options; o->name; o++) {
		if (!call_takes(verb, o))
			continue;
		if (o->letter)
			buf_fmt(out, " -%c", o->letter);
		buf_fmt(out, " --%s", o->name);
	}
}

// bash: how to get the candidates for a placeholder into COMPREPLY.
static void bash_source(const struct grammar *grammar, const char *place, struct buf *out)
{
	static const struct {
		const char *word, *code;
	} sources[] = {
		{"BUDGET", "-W \"$(_cove_words budgets)\""},
		{"EXECUTION", "-W \"$(_cove_words executions)\""},
		{"SECRET", "-W \"$(_cove_words secrets)\""},
		{"SESSION", "-W \"$(_cove_words sessions)\""},
		{"TEMPLATE", "-W \"$(_cove_words templates)\""},
		{"BOX", "-W \"$(_cove_words boxes)\""},
		{"FILE", "-f"},
		{"DIR", "-d"},
		{"COMMAND", "-c"},
	};

	if (strchr(place, '|') && !strstr(place, "FILE") && !strstr(place, "BOX") &&
	    !strstr(place, "SESSION")) {
		auto_free char *words = mem_str(place);

		for (char *at = words; *at; at++)
			*at = *at == '|' ? ' ' : *at;
		buf_fmt(out, "-W '%s'", words);
		return;
	}
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		if (strstr(place, sources[i].word)) {
			buf_text(out, sources[i].code);
			return;
		}
	}
	buf_text(out, "-W '");
	if (strstr(place, "VERB"))
		first_words(grammar, out);
	buf_text(out, "'");
}

static void bash_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	buf_fmt(out, "\t'%s')\n\t\tcase $prev in\n", verb->name);
	for (const struct option *o = grammar->options; o->name; o++) {
		if (!call_takes(verb, o) || !o->arg)
			continue;
		buf_text(out, "\t\t");
		if (o->letter)
			buf_fmt(out, "-%c|", o->letter);
		buf_fmt(out, "--%s) COMPREPLY=($(compgen ", o->name);
		bash_source(grammar, o->arg, out);
		buf_text(out, " -- \"$cur\")); return ;;\n");
	}
	buf_text(out, "\t\tesac\n\t\tif [[ $cur == -* ]]; then\n\t\t\tCOMPREPLY=($(compgen -W '");
	complete_options_of(grammar, verb, out);
	buf_text(out, "' -- \"$cur\"))\n");
	if (strstr(verb->words, "PROCESS")) // the word behind the sandbox
		buf_text(out, "\t\telif ((COMP_CWORD > 2)) && [[ $prev != -* ]]; then\n"
			      "\t\t\tCOMPREPLY=($(compgen -W \"$(_cove_words processes "
			      "\"${COMP_WORDS[2]}\")\" -- \"$cur\"))\n");
	if (strstr(verb->words, "BOX:PATH")) {
		buf_fmt(out, "\t\telse\n\t\t\t_cove_path %s\n\t\tfi ;;\n",
			strstr(verb->words, "FILE") ? "files" : "");
		return;
	}
	buf_text(out, "\t\telse\n\t\t\tCOMPREPLY=($(compgen ");
	bash_source(grammar, verb->words, out);
	buf_text(out, " -- \"$cur\"))\n\t\tfi ;;\n");
}

// compgen -W expands its words as the shell does, and clients choose ids: only plain ones are
// offered.
static const char bash_words[] = "_cove_words()\n{\n\tlocal name\n"
				 "\tcove words \"$@\" 2>/dev/null | while IFS= read -r name; do\n"
				 "\t\t[[ $name == *[^A-Za-z0-9._:@/-]* ]] || echo \"$name\"\n"
				 "\tdone\n}\n";

// BOX:PATH. bash splits words at colons and completes the last part alone, so the part before it is
// cut off the candidates. A sandbox chooses file names: they are read, never expanded, and are
// quoted on the command line.
static const char bash_path[] =
	"_cove_path()\n{\n"
	"\tlocal word=${COMP_LINE:0:COMP_POINT} before= name\n"
	"\tword=${word##*[[:space:]]}\n"
	"\t[[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && before=${word%%:*}:\n"
	"\twhile IFS= read -r name; do\n"
	"\t\t[[ $name == \"$word\"* ]] || continue\n"
	"\t\tprintf -v name %q \"${name#\"$before\"}\"\n"
	"\t\tCOMPREPLY+=(\"$name\")\n"
	"\tdone < <(cove words files \"$word\" 2>/dev/null)\n"
	"\tif [[ $1 && $word != *:* ]]; then\n"
	"\t\twhile IFS= read -r name; do\n\t\t\tCOMPREPLY+=(\"$name\")\n"
	"\t\tdone < <(compgen -f -- \"$word\")\n\tfi\n"
	"\t[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[^:/] ]] ||\n"
	"\t\tcompopt -o nospace 2>/dev/null\n"
	"\treturn 0\n}\n";

static void bash(const struct grammar *grammar, struct buf *out)
{
	buf_text(out, "# bash completion for cove; made by 'cove completion bash'\n");
	buf_text(out, bash_words);
	buf_text(out, bash_path);
	buf_text(out, "_cove()\n{\n"
		      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		      "\tlocal key=${COMP_WORDS[1]}\n\tCOMPREPLY=()\n"
		      "\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W '");
	first_words(grammar, out);
	buf_text(out, "' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $key in\n");
	for (const struct verb *v = grammar->verbs; v->name; v++) {
		auto_free char *group = group_of(v);

		if (!group || !leads(grammar, v))
			continue;
		buf_fmt(out,
			"\t%s)\n\t\tif ((COMP_CWORD == 2)); then\n"
			"\t\t\tCOMPREPLY=($(compgen -W '",
			group);
		second_words(grammar, group, out);
		buf_text(out, "' -- \"$cur\"))\n\t\t\treturn\n\t\tfi\n"
			      "\t\tkey=\"$key ${COMP_WORDS[2]}\" ;;\n");
	}
	buf_text(out, "\tesac\n\tcase $key in\n");
	for (const struct verb *v = grammar->verbs; v->name; v++)
		if (is_shown(v))
			bash_verb(grammar, v, out);
	buf_text(out, "\tesac\n}\ncomplete -o default -F _cove cove\n");
}

// zsh: an action of _arguments for a placeholder.
static void zsh_action(const struct grammar *grammar, const char *place, struct buf *out)
{
	if (strstr(place, "BOX:PATH"))
		buf_fmt(out,
			"{compadd -S \"\" -- ${(f)\"$(cove words files $PREFIX 2>/dev/null)\"}%s}",
			strstr(place, "FILE") ? "; [[ $PREFIX == *:* ]] || _files" : "");
	else if (strstr(place, "SESSION"))
		buf_text(out, "{compadd -- ${(f)\"$(cove words sessions 2>/dev/null)\"}}");
	else if (strstr(place, "EXECUTION"))
		buf_text(out, "{compadd -- ${(f)\"$(cove words executions 2>/dev/null)\"}}");
	else if (strstr(place, "FILE"))
		buf_text(out, "_files");
	else if (strstr(place, "PROCESS"))
		buf_text(out, "{(( CURRENT > 2 )) && compadd -- ${(f)\"$(cove words processes "
			      "$words[2] 2>/dev/null)\"} || compadd -- ${(f)\"$(cove words boxes "
			      "2>/dev/null)\"}}");
	else if (strchr(place, '|')) {
		buf_char(out, '(');
		for (const char *at = place; *at; at++)
			buf_char(out, *at == '|' ? ' ' : *at);
		buf_char(out, ')');
	} else if (strstr(place, "BUDGET"))
		buf_text(out, "{compadd -- ${(f)\"$(cove words budgets 2>/dev/null)\"}}");
	else if (strstr(place, "SECRET"))
		buf_text(out, "{compadd -- ${(f)\"$(cove words secrets 2>/dev/null)\"}}");
	else if (strstr(place, "TEMPLATE"))
		buf_text(out, "{compadd -- ${(f)\"$(cove words templates 2>/dev/null)\"}}");
	else if (strstr(place, "BOX"))
		buf_text(out, "{compadd -- ${(f)\"$(cove words boxes 2>/dev/null)\"}}");
	else if (strstr(place, "DIR"))
		buf_text(out, "_files -/");
	else if (strstr(place, "COMMAND"))
		buf_text(out, "_normal");
	else if (strstr(place, "VERB")) {
		buf_char(out, '(');
		first_words(grammar, out);
		buf_char(out, ')');
	}
}

static void zsh_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	buf_fmt(out, "\t'%s') _arguments \\\n", verb->name);
	for (const struct option *o = grammar->options; o->name; o++) {
		if (!call_takes(verb, o))
			continue;
		buf_text(out, "\t\t'*'");
		if (o->letter)
			buf_fmt(out, "{-%c,--%s}", o->letter, o->name);
		else
			buf_fmt(out, "--%s", o->name);
		buf_text(out, "'[");
		complete_quote(out, o->help, "[]:");
		buf_char(out, ']');
		if (o->arg) {
			buf_char(out, ':');
			complete_quote(out, o->arg, "[]:");
			buf_char(out, ':');
			zsh_action(grammar, o->arg, out);
		}
		buf_text(out, "' \\\n");
	}
	buf_text(out, "\t\t'*::word:");
	zsh_action(grammar, verb->words, out);
	buf_text(out, "' ;;\n");
}

static void zsh(const struct grammar *grammar, struct buf *out)
{
	buf_text(out, "#compdef cove\n# made by 'cove completion zsh'\n_cove() {\n"
		      "\tlocal key=$words[2]\n\tif (( CURRENT == 2 )); then\n\t\tcompadd --");
	first_words(grammar, out);
	buf_text(out, "\n\t\treturn\n\tfi\n\tcase $key in\n");
	for (const struct verb *v = grammar->verbs; v->name; v++) {
		auto_free char *group = group_of(v);

		if (!group || !leads(grammar, v))
			continue;
		buf_fmt(out, "\t%s)\n\t\tif (( CURRENT == 3 )); then\n\t\t\tcompadd --", group);
		second_words(grammar, group, out);
		buf_text(out, "\n\t\t\treturn\n\t\tfi\n\t\tkey=\"$key $words[3]\"\n"
			      "\t\tshift words; (( CURRENT-- )) ;;\n");
	}
	buf_text(out, "\tesac\n\tshift words; (( CURRENT-- ))\n\tcase $key in\n");
	for (const struct verb *v = grammar->verbs; v->name; v++)
		if (is_shown(v))
			zsh_verb(grammar, v, out);
	buf_text(out, "\tesac\n}\ncompdef _cove cove\n"
		      "[[ $funcstack[1] == _cove ]] && _cove \"$@\"\n" /* found in fpath */);
}

// fish: "the words so far name this verb".
static void fish_when(const struct verb *verb, struct buf *out)
{
	struct str rest = str_of(verb->name), word;
	bool first = true;

	buf_text(out, "complete -c cove -n '");
	while (str_cut(&rest, ' ', &word)) {
		buf_fmt(out, "%s__fish_seen_subcommand_from " STR_FMT, first ? "" : "; and ",
			STR_ARG(word));
		first = false;
	}
	buf_char(out, '\'');
}

static void fish_source(const char *place, struct buf *out)
{
	if (strchr(place, '|') && !strstr(place, "FILE") && !strstr(place, "BOX")) {
		buf_text(out, " -x -a '");
		for (const char *at = place; *at; at++)
			buf_char(out, *at == '|' ? ' ' : *at);
		buf_char(out, '\'');
	} else if (strstr(place, "FILE") || strstr(place, "DIR"))
		buf_text(out, " -r");
	else if (strstr(place, "BUDGET"))
		buf_text(out, " -x -a '(cove words budgets 2>/dev/null)'");
	else if (strstr(place, "SECRET"))
		buf_text(out, " -x -a '(cove words secrets 2>/dev/null)'");
	else if (strstr(place, "TEMPLATE"))
		buf_text(out, " -x -a '(cove words templates 2>/dev/null)'");
	else if (strstr(place, "BOX"))
		buf_text(out, " -x -a '(cove words boxes 2>/dev/null)'");
	else
		buf_text(out, " -x");
}

static void fish_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out)
{
	for (const struct option *o = grammar->options; o->name; o++) {
		if (!call_takes(verb, o))
			continue;
		fish_when(verb, out);
		if (o->letter)
			buf_fmt(out, " -s %c", o->letter);
		buf_fmt(out, " -l %s -d '", o->name);
		complete_quote(out, o->help, "");
		buf_char(out, '\'');
		if (o->arg)
			fish_source(o->arg, out);
		buf_char(out, '\n');
	}
	if (strstr(verb->words, "BOX")) {
		fish_when(verb, out);
		buf_fmt(out, " %s -a '(cove words %s 2>/dev/null)'\n",
			strstr(verb->words, "FILE") ? "" : "-f",
			strstr(verb->words, "BOX:PATH") ? "files (commandline -ct)" : "boxes");
	}
	if (strstr(verb->words, "EXECUTION")) {
		fish_when(verb, out);
		buf_text(out, " -f -a '(cove words executions 2>/dev/null)'\n");
	}
	if (strstr(verb->words, "SESSION")) {
		fish_when(verb, out);
		buf_text(out, " -f -a '(cove words sessions 2>/dev/null)'\n");
	}
	if (strstr(verb->words, "PROCESS")) {
		fish_when(verb, out);
		buf_text(out,
			 " -f -a '(cove words processes (commandline -opc)[3] 2>/dev/null)'\n");
	}
}

static void fish(const struct grammar *grammar, struct buf *out)
{
	buf_text(out, "# made by 'cove completion fish'\n");
	for (const struct verb *v = grammar->verbs; v->name; v++) {
		auto_free char *group = group_of(v);

		if (!is_shown(v))
			continue;
		if (group)
			buf_fmt(out,
				"complete -c cove -f -n '__fish_use_subcommand' -a %s\n"
				"complete -c cove -f -n '__fish_seen_subcommand_from %s' -a %s -d "
				"'",
				group, group, strchr(v->name, ' ') + 1);
		else
			buf_fmt(out, "complete -c cove -f -n '__fish_use_subcommand' -a %s -d '",
				v->name);
		complete_quote(out, v->brief, "");
		buf_text(out, "'\n");
		fish_verb(grammar, v, out);
	}
}

fallible complete_script(const struct grammar *grammar, const char *shell, struct buf *out)
{
	static const struct {
		const char *name;
		void (*write)(const struct grammar *grammar, struct buf *out);
	} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++) {
		if (strcmp(shell, shells[i].name) == 0) {
			shells[i].write(grammar, out);
			return OK;
		}
	}
	return err_hint(err_new(INVALID, "unknown_shell", "no completion is made for '%s'", shell),
			"there are bash, zsh and fish");
}
