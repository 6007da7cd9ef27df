#include "cloudflare/rpc_table.h"

#include "tap.h"

static struct err *write_it(const char *object, const char *name, const char *args,
			    struct rpc_table_request *out)
{
	const struct rpc_table *row = rpc_table_find(str_of(object), str_of(name));
	auto_json json = NULL;
	struct err *err = json_read(str_of(args), &json);

	if (!row || err)
		abort();
	return rpc_table_write(row, json, out);
}

#define on_done on_exit_call(rpc_table_done)

TEST(positions, "arguments by position become members of a body")
{
	on_done struct rpc_table_request r = {0};

	CHECK_OK(write_it(
		"commands", "execute",
		"[\"echo hi\",\"s1\",{\"cwd\":\"/\",\"env\":{\"A\":\"1\",\"B\":[\"undefined\"]},"
		"\"timeoutMs\":[\"undefined\"]}]",
		&r));
	CHECK_STR(r.method, "POST");
	CHECK_STR(r.target.at, "/api/execute");
	CHECK_STR(r.body.at,
		  "{\"command\":\"echo hi\",\"sessionId\":\"s1\",\"cwd\":\"/\",\"env\":{\"A\":"
		  "\"1\"}}");
}

TEST(gaps, "undefined arguments are left out, and so are missing ones")
{
	on_done struct rpc_table_request r = {0}, q = {0};

	CHECK_OK(write_it("files", "listFiles", "[\"/x\",[\"undefined\"],{\"recursive\":true}]",
			  &r));
	CHECK_STR(r.body.at, "{\"path\":\"/x\",\"options\":{\"recursive\":true}}");
	CHECK_OK(write_it("files", "exists", "[]", &q));
	CHECK_STR(q.body.at, "{}");
}

TEST(paths, "an id in the path is escaped")
{
	on_done struct rpc_table_request r = {0}, q = {0};

	CHECK_OK(write_it("processes", "getProcessLogs", "[\"a/../b?c\"]", &r));
	CHECK_STR(r.target.at, "/api/process/a%2F..%2Fb%3Fc/logs");
	CHECK(!r.has_body);
	CHECK_ERR(write_it("processes", "getProcess", "[7]", &q), INVALID);
}

TEST(raw, "a file read with encoding none is a download")
{
	on_done struct rpc_table_request r = {0}, q = {0};

	CHECK_OK(write_it("files", "readFile", "[\"/a b/c\",\"s\",{\"encoding\":\"none\"}]", &r));
	CHECK(r.shape == RPC_TABLE_DOWNLOAD);
	CHECK_STR(r.target.at, "/api/files/a%20b/c");
	CHECK_OK(write_it("files", "readFile", "[\"/c\",\"s\",{\"encoding\":\"base64\"}]", &q));
	CHECK(q.shape == RPC_TABLE_PLAIN);
}

TEST(functions, "functions of the client are known by their numbers, and are not in the body")
{
	on_done struct rpc_table_request r = {0};

	CHECK_OK(write_it("interpreter", "runCodeStream",
			  "[\"c\",\"1\",[\"undefined\"],{\"onStdout\":[\"export\",-3],"
			  "\"onError\":[\"export\",-4]},500]",
			  &r));
	CHECK(r.shape == RPC_TABLE_CALLS && r.functions[0] == -3 && r.functions[3] == -4);
	CHECK(!r.functions[1] && !r.functions[2]);
	CHECK_STR(r.body.at, "{\"context_id\":\"c\",\"code\":\"1\",\"timeout_ms\":500}");
}

TEST(upload, "a stream is taken by its number")
{
	on_done struct rpc_table_request r = {0}, q = {0};

	CHECK_OK(write_it("files", "writeFileStream", "[\"x\",[\"readable\",3],\"s\"]", &r));
	CHECK(r.pipe == 3);
	CHECK_STR(r.target.at, "/api/files/x?relativeTo=s");
	CHECK_ERR(write_it("files", "writeFileStream", "[\"x\",\"y\",\"s\"]", &q), INVALID);
}

TEST(written, "bytesWritten counts the bytes as they will be on disk")
{
	on_done struct rpc_table_request r = {0}, q = {0};

	CHECK_OK(write_it("files", "writeFile", "[\"/x\",\"\\u00e4b\",\"s\"]", &r));
	CHECK(r.written == 3);
	CHECK_OK(write_it("files", "writeFile", "[\"/x\",\"aGk=\",\"s\",{\"encoding\":\"base64\"}]",
			  &q));
	CHECK(q.written == 2);
}

TEST(unknown, "there are no other methods")
{
	CHECK(!rpc_table_find(STR("files"), STR("execute")));
	CHECK(!rpc_table_find(STR(""), STR("")));
	CHECK(!rpc_table_find(STR("__proto__"), STR("constructor")));
}

TEST(stubs, "a function where a value belongs is refused")
{
	on_done struct rpc_table_request r = {0};

	CHECK_ERR(write_it("commands", "execute", "[[\"export\",-1],\"s\"]", &r), INVALID);
}
