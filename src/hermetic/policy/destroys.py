"""Rules about data and resources that others share: databases, clouds, clusters."""

from __future__ import annotations

import re

from .rules import Rule

SQL_DESTROYS = Rule(
    name="sql-destroys",
    category="sql-destructive",
    severity=8,
    effects=("deletes", "changes shared state"),
    catches=(
        "psql -c 'DROP TABLE users'",
        'mysql -e "DELETE FROM users WHERE 1=1"',
        "echo 'TRUNCATE t' | psql prod",
        "redis-cli FLUSHALL",
    ),
    spares=(
        "psql -c 'SELECT 1'",
        'psql -c "DELETE FROM t WHERE id=3"',
        "mysql -e \"select 'DROP TABLE x'\"",
        "redis-cli GET a",
    ),
)
SQL_LOCAL = Rule(
    name="sql-local",
    category="sql-local",
    label="caution",
    severity=3,
    effects=("deletes",),
    catches=("sqlite3 dev.db 'DELETE FROM t'", "dropdb test"),
    spares=("sqlite3 dev.db .tables",),
)
CLOUD_DESTROYS = Rule(
    name="cloud-destroys",
    category="cloud-destroy",
    severity=9,
    effects=("deletes", "changes shared state", "network"),
    catches=(
        "terraform destroy",
        "aws s3 rb s3://x --force",
        "kubectl delete ns prod",
        "gcloud sql instances delete x -q",
        "helm uninstall x",
        "aws ecs update-service --service api --desired-count 0",
        'kubectl patch deploy api -p \'{"spec":{"replicas":0}}\'',
    ),
    spares=(
        "terraform plan -destroy",
        "aws s3 ls",
        "kubectl get ns",
        "kubectl delete pod x --dry-run=client",
        "terraform destroy --help",
    ),
)
CLOUD_CHANGES = Rule(
    name="cloud-changes",
    category="remote-change",
    label="caution",
    severity=4,
    effects=("changes shared state", "network"),
    catches=("kubectl apply -f a.yaml", "helm upgrade x ./chart", "gh pr merge 1"),
    spares=("kubectl get pods", "gh pr list"),
)
# Nothing left running: as good as deleted for whoever uses it.
TO_ZERO = re.compile(
    r"""(desired-count|desired-capacity|max-size|num-nodes|node-count|replicas|instance-count|replicaCount|min-machines)"""
    r"""["']?\s*[= :]\s*["']?0(?![\d.])"""
)
RULES = (SQL_DESTROYS, SQL_LOCAL, CLOUD_DESTROYS, CLOUD_CHANGES)
