// What scripts/tsqlcheck runs: Microsoft's own two parsers of T-SQL over files, a few rules of the server that no parser knows,
// and, with --model, the offline model that resolves every name over all files together. It sees no types, plans or locks.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using Microsoft.SqlServer.Dac.Model;
using Microsoft.SqlServer.TransactSql.ScriptDom;
using Oldest = Microsoft.SqlServer.Management.SqlParser.Common.DatabaseCompatibilityLevel;
using Second = Microsoft.SqlServer.Management.SqlParser.Parser;

/// Rules that the server applies after parsing, or that our own files keep.
class Rules : TSqlFragmentVisitor {
    public readonly List<KeyValuePair<TSqlFragment, string>> Found = new List<KeyValuePair<TSqlFragment, string>>();
    readonly HashSet<TableReference> targets = new HashSet<TableReference>();

    void Say(TSqlFragment at, string what) { Found.Add(new KeyValuePair<TSqlFragment, string>(at, what)); }

    /// Error 319: only a semicolon, or the beginning of a block, may stand before WITH.
    void After(StatementWithCtesAndXmlNamespaces statement) {
        if (statement.WithCtesAndXmlNamespaces == null) return;
        for (int i = statement.FirstTokenIndex - 1; i >= 0; i--) {
            var token = statement.ScriptTokenStream[i];
            switch (token.TokenType) {
                case TSqlTokenType.WhiteSpace: case TSqlTokenType.SingleLineComment: case TSqlTokenType.MultilineComment: continue;
                case TSqlTokenType.Semicolon: case TSqlTokenType.Begin: case TSqlTokenType.As: case TSqlTokenType.Else:
                case TSqlTokenType.Go: return;
            }
            if (token.Text.ToUpperInvariant() == "TRY" || token.Text.ToUpperInvariant() == "CATCH") return;
            Say(statement, "a semicolon must stand before WITH (error 319)");
            return;
        }
    }
    public override void ExplicitVisit(SelectStatement node) { After(node); base.ExplicitVisit(node); }
    public override void ExplicitVisit(InsertStatement node) { After(node); base.ExplicitVisit(node); }
    public override void ExplicitVisit(UpdateStatement node) { After(node); base.ExplicitVisit(node); }
    public override void ExplicitVisit(DeleteStatement node) { After(node); base.ExplicitVisit(node); }

    public override void ExplicitVisit(UpdateSpecification node) { targets.Add(node.Target); base.ExplicitVisit(node); }
    public override void ExplicitVisit(DeleteSpecification node) { targets.Add(node.Target); base.ExplicitVisit(node); }
    public override void ExplicitVisit(InsertSpecification node) {
        var values = node.InsertSource as ValuesInsertSource;
        if (values != null && node.Columns.Count > 0 && values.RowValues.Any(row => row.ColumnValues.Count != node.Columns.Count))
            Say(node, "the values are not as many as the columns (error 110)");
        var select = node.InsertSource as SelectInsertSource;
        var query = select == null ? null : select.Select as QuerySpecification;
        if (query != null && node.Columns.Count > 0 && !query.SelectElements.Any(element => element is SelectStarExpression)
            && query.SelectElements.Count != node.Columns.Count)
            Say(node, "the select list is not as long as the list of columns (errors 120, 121)");
        targets.Add(node.Target);
        base.ExplicitVisit(node);
    }
    public override void ExplicitVisit(OutputIntoClause node) {
        if (node.IntoTableColumns.Count > 0 && node.IntoTableColumns.Count != node.SelectColumns.Count)
            Say(node, "OUTPUT has another number of columns than INTO (errors 120, 121)");
        base.ExplicitVisit(node);
    }

    static readonly TableHintKind[] Isolation = {
        TableHintKind.HoldLock, TableHintKind.NoLock, TableHintKind.ReadCommitted, TableHintKind.RepeatableRead,
        TableHintKind.Serializable, TableHintKind.ReadCommittedLock, TableHintKind.ReadUncommitted, TableHintKind.Snapshot };
    public override void ExplicitVisit(NamedTableReference node) {
        var hints = node.TableHints.Select(hint => hint.HintKind).ToList();
        if (hints.Count(hint => Isolation.Contains(hint)) > 1) Say(node, "two isolation hints on one table (error 1047)");
        if (hints.Contains(TableHintKind.ReadPast) && !hints.Contains(TableHintKind.ReadCommittedLock)
            && !hints.Contains(TableHintKind.RepeatableRead))
            Say(node, "READPAST without READCOMMITTEDLOCK is refused under READ_COMMITTED_SNAPSHOT (error 650)");
        foreach (var seek in node.TableHints.OfType<ForceSeekTableHint>())
            if (seek.IndexValue != null)
                Say(node, "FORCESEEK with an index is refused for what is changed: say INDEX(...), FORCESEEK");
        if (targets.Contains(node) && hints.Contains(TableHintKind.NoLock))
            Say(node, "NOLOCK on what is changed (error 1065)");
        base.ExplicitVisit(node);
    }

    public override void ExplicitVisit(ThrowStatement node) {
        var number = node.ErrorNumber as IntegerLiteral;
        if (number != null && int.Parse(number.Value) < 50000) Say(node, "THROW takes numbers from 50000 (error 35100)");
        base.ExplicitVisit(node);
    }
    public override void ExplicitVisit(ExecutableStringList node) {
        Say(node, "a statement is put together at run time");
        base.ExplicitVisit(node);
    }
    public override void ExplicitVisit(ExecutableProcedureReference node) {
        var name = node.ProcedureReference.ProcedureReference;
        if (name != null && name.Name.BaseIdentifier.Value.ToLowerInvariant() == "sp_executesql")
            Say(node, "a statement is put together at run time");
        base.ExplicitVisit(node);
    }

    /// Functions of servers newer than 2016, which the parsers do not tell from a missing one.
    static readonly HashSet<string> Newer = new HashSet<string>(StringComparer.OrdinalIgnoreCase) {
        "STRING_AGG", "TRIM", "TRANSLATE", "CONCAT_WS", "GREATEST", "LEAST", "GENERATE_SERIES", "DATE_BUCKET", "JSON_OBJECT",
        "JSON_ARRAY", "JSON_PATH_EXISTS", "DATETRUNC", "APPROX_COUNT_DISTINCT", "LIMIT", "NOW", "CHAR_LENGTH", "LENGTH", "IFNULL" };
    public override void ExplicitVisit(FunctionCall node) {
        if (node.CallTarget == null && Newer.Contains(node.FunctionName.Value))
            Say(node, node.FunctionName.Value + " is no function of SQL Server 2016 (error 195)");
        base.ExplicitVisit(node);
    }
}

static class Check {
    static int faults;
    static readonly HashSet<string> said = new HashSet<string>();

    static void Fault(string where, string what) {
        var line = where + ": " + what.Replace("\r", " ").Replace("\n", " ");
        if (!said.Add(line)) return;
        Console.WriteLine(line);
        faults++;
    }

    static int Main(string[] arguments) {
        bool model = arguments.Contains("--model");
        var parsed = new List<KeyValuePair<string, TSqlScript>>();
        foreach (var file in arguments.Where(argument => !argument.StartsWith("--"))) {
            string text = File.ReadAllText(file);
            // 130 is SQL Server 2016, the oldest that is supported; 150 is the newest that these libraries know.
            TSqlScript script = null;
            foreach (TSqlParser parser in new TSqlParser[] { new TSql130Parser(true), new TSql150Parser(true) }) {
                IList<ParseError> errors;
                using (var reader = new StringReader(text)) {
                    var fragment = parser.Parse(reader, out errors);
                    if (errors.Count == 0) script = (TSqlScript)fragment; else script = null;
                }
                foreach (var error in errors)
                    Fault(file + ":" + error.Line + ":" + error.Column, error.Number + ": " + error.Message);
                if (script == null) break;
            }
            foreach (var error in Second.Parser.Parse(text, new Second.ParseOptions("GO", true, Oldest.Version130)).Errors)
                if (!error.IsWarning) Fault(file + ":" + error.Start.LineNumber + ":" + error.Start.ColumnNumber, error.Message);
            if (script == null) continue;
            var rules = new Rules();
            script.Accept(rules);
            foreach (var found in rules.Found) Fault(file + ":" + found.Key.StartLine + ":" + found.Key.StartColumn, found.Value);
            parsed.Add(new KeyValuePair<string, TSqlScript>(file, script));
        }
        if (model) Names.Resolve(parsed, Fault);
        return faults > 0 ? 1 : 0;
    }
}

/// Puts every definition into a model without a server, which then says what each name stands for.
static class Names {
    public static void Resolve(List<KeyValuePair<string, TSqlScript>> files, Action<string, string> fault) {
        var options = new TSqlObjectOptions { QuotedIdentifier = true, AnsiNulls = true };
        using (var model = new TSqlModel(SqlServerVersion.Sql130, new TSqlModelOptions())) {
            foreach (var file in files) {
                int number = 0;
                foreach (var statement in file.Value.Batches.SelectMany(batch => batch.Statements)) {
                    try { model.AddOrUpdateObjects(Text(statement, ++number), file.Key + ":" + number, options); }
                    catch (DacModelException error) {
                        foreach (var message in error.Messages) fault(file.Key + ":" + statement.StartLine, message.ToString());
                    }
                }
            }
            try { foreach (var message in model.Validate()) Report(message, fault); }
            catch (DacModelException error) { foreach (var message in error.Messages) Report(message, fault); }
        }
    }

    static void Report(DacModelMessage message, Action<string, string> fault) {
        // The model has no copy of the system's own objects.
        var text = message.ToString();
        if (!text.Contains("[sys]") && !text.Contains("sp_getapplock")) fault("model", text);
    }

    /// The model knows no CREATE OR ALTER, and nothing but definitions: what else a file does becomes a procedure of its own.
    static string Text(TSqlStatement statement, int number) {
        var text = new StringBuilder();
        bool skipping = false, first = true;
        for (int i = statement.FirstTokenIndex; i <= statement.LastTokenIndex; i++) {
            var token = statement.ScriptTokenStream[i];
            if (first && token.TokenType == TSqlTokenType.Or) skipping = true;
            if (!skipping) text.Append(token.Text);
            if (skipping && token.TokenType == TSqlTokenType.Alter) { skipping = false; first = false; }
            if (token.TokenType != TSqlTokenType.Create && token.TokenType != TSqlTokenType.WhiteSpace && !skipping) first = false;
        }
        var kind = statement.GetType().Name;
        if (kind.StartsWith("Create") || kind == "GrantStatement") return text.ToString();
        return kind.StartsWith("Alter") || kind.StartsWith("Set") ? "" : "CREATE PROCEDURE dbo.plain_" + Guid.NewGuid().ToString("N") + " AS " + text;
    }
}
