#include "types/dockerfile.h"

#include <stdio.h>

#include "tap.h"
#include "types/build_state.h"

// The plan as JSON, or the refusal.
static const char *plan_of(const char *text)
{
	static char room[8192];
	auto_build_plan plan = {0};
	auto_buf out = BUF_INIT(sizeof(room) - 1);
	struct json_out json = json_to(&out);
	auto_err err = dockerfile_read(str_of(text), &plan);

	if (err) {
		snprintf(room, sizeof(room), "%s", err_message(err));
		return room;
	}
	build_plan_write(&json, &plan);
	snprintf(room, sizeof(room), "%s", strstr(out.at, "\"from\""));
	return room;
}

TEST(steps, "I-24: instructions become steps")
{
	CHECK_STR(plan_of("FROM a\nRUN one \\\n # no\n two\nRUN [\"x\", \"y\"]"),
		  "\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"run\":\"one  two\",\"line\":"
		  "2},{\"run\":[\"x\",\"y\"],\"line\":5}]");
	CHECK_STR(
		plan_of("from cove://t\ncopy --chown=1:2 a b /c/\nENV A=\"b c\" D=e\nENV F g h"),
		"\"from\":{\"template\":\"t\"},\"line\":1,\"steps\":[{\"copy\":{\"sources\":[\"a\","
		"\"b\"],\"to\":\"/c/\",\"chown\":\"1:2\"},\"line\":2},{\"env\":{\"A\":\"\\\"b "
		"c\\\"\",\"D\":\"e\"},\"line\":3},{\"env\":{\"F\":\"g h\"},\"line\":4}]");
	CHECK_STR(plan_of("ARG T=x\nARG T2=${T}y\nFROM cove://$T2"),
		  "\"from\":{\"template\":\"xy\"},\"line\":3,\"steps\":[]");
}

TEST(heredocs, "I-25: a here-document alone is the script, others go to the shell with it")
{
	CHECK_STR(plan_of("FROM a\nRUN <<X\n one\nX\nUSER u"),
		  "\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"run\":\" "
		  "one\\n\",\"line\":2},{\"user\":\"u\",\"line\":5}]");
	CHECK_STR(plan_of("FROM a\nRUN cat <<-X >f\n\ttwo\n\tX"),
		  "\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"run\":\"cat <<-X "
		  ">f\\ntwo\\nX\",\"line\":2}]");
	CHECK_STR(plan_of("FROM a\nRUN echo '<<X' <<<y"),
		  "\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"run\":\"echo '<<X' "
		  "<<<y\",\"line\":2}]");
}

TEST(sources, "I-25: COPY of stages, images and here-documents, ADD, mounts, HEALTHCHECK")
{
	CHECK_STR(
		plan_of("FROM a\nCOPY --from=b:1 c /d\nADD e /f"),
		"\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"copy\":{\"sources\":[\"c\"],"
		"\"to\":\"/d\",\"from\":\"b:1\"},\"line\":2},{\"add\":{\"sources\":[\"e\"],\"to\":"
		"\"/f\"},\"line\":3}]");
	CHECK_STR(
		plan_of("FROM a\nCOPY <<X <<'Y' /d/\n1\nX\n2\nY\nUSER u"),
		"\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"copy\":{\"sources\":[],\"to\":"
		"\"/d/"
		"\",\"files\":[{\"name\":\"X\",\"content\":\"1\\n\"},{\"name\":\"Y\",\"content\":"
		"\"2\\n\",\"literal\":true}]},\"line\":2},{\"user\":\"u\",\"line\":7}]");
	CHECK_STR(plan_of("FROM a\nRUN --mount=type=cache,target=/c --mount=type=secret,id=s x"),
		  "\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"run\":\"x\",\"mounts\":["
		  "\"type=cache,target=/c\",\"type=secret,id=s\"],\"line\":2}]");
	CHECK_STR(plan_of("FROM a\nHEALTHCHECK --timeout=2s CMD [\"x\",\"y\"]"),
		  "\"from\":{\"image\":\"a\"},\"line\":1,\"steps\":[{\"healthcheck\":{\"Test\":["
		  "\"CMD\","
		  "\"x\",\"y\"],\"Timeout\":2000000000},\"line\":2}]");
}

TEST(refused, "I-25: what cove does not have is refused with its line")
{
	CHECK_STR(plan_of("FROM a\n\nONBUILD RUN x"), "line 3: ONBUILD is not supported");
	CHECK_STR(plan_of("# c\nRUN x"), "line 2: a Dockerfile begins with FROM");
	CHECK_STR(plan_of("FROM a\nRUN --mount=type=ssh x"),
		  "line 2: 'ssh' of a mount is not supported");
	CHECK_STR(plan_of("FROM a\nCOPY --from=b c /d\nFROM a AS b"),
		  "line 2: there is no earlier stage 'b'");
	CHECK_STR(plan_of("FROM a\nRUN --mount=type=tmpfs,target=/.. x"),
		  "line 2: '/..' of a mount is no target");
	CHECK_STR(plan_of("FROM a\nADD http://x/y /z"), "line 2: ADD of a URL is not supported");
	CHECK_STR(plan_of("FROM a\nRUN <<X\nY"), "line 2: a here-document has no end");
	CHECK_STR(plan_of("# escape=x\nFROM a"), "line 1: escape is a backslash or a backtick");
	CHECK_STR(plan_of(""), "the Dockerfile has no FROM");
	CHECK_STR(plan_of("FROM ${A:?}"), "line 1: A is not set");
}

static const char *expanded(const char *word)
{
	static char room[256];
	auto_build_plan plan = {.escape = '\\'};
	auto_build_state state = {0};
	auto_free char *out = NULL;
	auto_err err = OK;

	env_map_set(&state.env, STR("A"), STR("one"));
	env_map_set(&state.env, STR("E"), STR(""));
	err = build_state_expand(&state, &plan, word, &out);
	snprintf(room, sizeof(room), "%s", err ? err_reason(err) : out);
	return room;
}

TEST(expansion, "I-25: variables and quotes of words")
{
	CHECK_STR(expanded("$A-${A}s"), "one-ones");
	CHECK_STR(expanded("'$A' \"$A\" \\$A"), "$A one $A");
	CHECK_STR(expanded("${B:-x$A} ${E:-y} ${E-z} ${A:-w}"), "xone y  one");
	CHECK_STR(expanded("${A:+set}${B:+not}${E:+not}${E+is}"), "setis");
	CHECK_STR(expanded("${B:-${C:-deep}}"), "deep");
	CHECK_STR(expanded("a$"), "a$");
	CHECK_STR(expanded("${A"), "bad_substitution");
	CHECK_STR(expanded("'open"), "bad_substitution");
	CHECK_STR(expanded("${A:?}${B:?}"), "bad_substitution");
	CHECK_STR(expanded("${A//x}"), "bad_substitution");
}

TEST(targets, "I-25: stages that the target does not need are skipped")
{
	auto_build_plan plan = {0};

	CHECK_OK(dockerfile_read(STR("FROM a AS one\nFROM b AS two\nFROM one AS three\nFROM b"),
				 &plan));
	CHECK_OK(build_plan_choose(&plan, STR("Three")));
	CHECK(plan.count == 3);
	CHECK(build_plan_needs(&plan, 0) && !build_plan_needs(&plan, 1) &&
	      build_plan_needs(&plan, 2));
	CHECK_ERR(build_plan_choose(&plan, STR("four")), INVALID);
}

TEST(configuration, "I-21: the state is read from a base's configuration, and written as one")
{
	auto_build_plan plan = {0};
	auto_build_state state = {0};
	auto_buf out = BUF_INIT(4096);

	CHECK_OK(build_state_read(STR("{\"Env\":[\"A=b\"],\"User\":\"u\",\"Cmd\":[\"x\"],"
				      "\"Labels\":{\"l\":\"m\"},\"ExposedPorts\":{\"1/tcp\":{}}}"),
				  &state));
	CHECK_OK(dockerfile_read(STR("FROM a\nENV C=$A$A\nARG D=e\nWORKDIR /w\nWORKDIR "
				     "$D\nENTRYPOINT x y\nEXPOSE 2"),
				 &plan));
	for (size_t i = 0; i < plan.stages[0].count; i++)
		CHECK_OK(build_state_apply(&state, &plan, &plan.stages[0].steps[i]));
	CHECK_OK(build_state_write(&state, &out));
	CHECK_STR(out.at, "{\"Env\":[\"A=b\",\"C=bb\"],\"User\":\"u\",\"WorkingDir\":\"/w/e\","
			  "\"Entrypoint\":[\"/bin/sh\",\"-c\",\"x y\"],\"Labels\":{\"l\":\"m\"},"
			  "\"ExposedPorts\":{\"1/tcp\":{},\"2/tcp\":{}}}");
}
