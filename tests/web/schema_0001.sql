-- The database of the first release, as SQLite's `.dump` wrote it, with a row of each kind.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	user VARCHAR(64) NOT NULL, 
	action VARCHAR(64) NOT NULL, 
	target VARCHAR(200) NOT NULL, 
	address VARCHAR(64) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "audit" VALUES(1,1700000000.0,'admin','job.submit','x','127.0.0.1','done');
CREATE TABLE failures (
	"key" VARCHAR(200) NOT NULL, 
	count INTEGER NOT NULL, 
	last FLOAT NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE groups (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
CREATE TABLE jobs (
	number INTEGER NOT NULL, 
	id VARCHAR(32) NOT NULL, 
	owner_id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	site VARCHAR(64) NOT NULL, 
	visibility VARCHAR(16) NOT NULL, 
	spec TEXT NOT NULL, 
	needs TEXT NOT NULL, 
	priority INTEGER NOT NULL, 
	preemptible BOOLEAN NOT NULL, 
	"limit" FLOAT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	wanted VARCHAR(16) NOT NULL, 
	created FLOAT NOT NULL, 
	queued FLOAT NOT NULL, 
	started FLOAT, 
	ended FLOAT, 
	run VARCHAR(200), 
	epoch INTEGER, 
	launched FLOAT, 
	restarts INTEGER NOT NULL, 
	slots TEXT NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id), 
	FOREIGN KEY(owner_id) REFERENCES users (id)
);
INSERT INTO "jobs" VALUES(1,'00112233aabbccdd',1,'old','command','local','private','{"name":"old","command":"true"}','{}',100,0,86400.0,'SUCCEEDED','','go',1.0,1.0,2.0,3.0,'r1',1,2.0,0,'');
CREATE TABLE links (
	hash VARCHAR(64) NOT NULL, 
	user_id INTEGER NOT NULL, 
	expires FLOAT NOT NULL, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE members (
	group_id INTEGER NOT NULL, 
	user_id INTEGER NOT NULL, 
	PRIMARY KEY (group_id, user_id), 
	FOREIGN KEY(group_id) REFERENCES groups (id) ON DELETE CASCADE, 
	FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE sessions (
	hash VARCHAR(64) NOT NULL, 
	user_id INTEGER NOT NULL, 
	csrf VARCHAR(64) NOT NULL, 
	created FLOAT NOT NULL, 
	seen FLOAT NOT NULL, 
	expires FLOAT NOT NULL, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE templates (
	id INTEGER NOT NULL, 
	owner_id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	shared BOOLEAN NOT NULL, 
	spec TEXT NOT NULL, 
	changed FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(owner_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE tokens (
	id INTEGER NOT NULL, 
	user_id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	scopes TEXT NOT NULL, 
	created FLOAT NOT NULL, 
	expires FLOAT NOT NULL, 
	used FLOAT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE, 
	UNIQUE (hash)
);
CREATE TABLE users (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	password TEXT, 
	role VARCHAR(16) NOT NULL, 
	disabled BOOLEAN NOT NULL, 
	created FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "users" VALUES(1,'admin',NULL,'admin',0,1700000000.0);
CREATE INDEX jobs_state ON jobs (state);
CREATE INDEX jobs_owner ON jobs (owner_id, number);
CREATE UNIQUE INDEX templates_owner ON templates (owner_id, name);
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
COMMIT;
