import java.nio.file.Path;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

/** The Neo4j community server: java -cp ... Server.java HOME CONF. It ends when nobody holds its standard input. */
class Server {
    public static void main(String[] arguments) throws Exception {
        new DatabaseManagementServiceBuilder(Path.of(arguments[0]))
                .loadPropertiesFromFile(Path.of(arguments[1]))
                .build();
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // tests are still running
        }
        Runtime.getRuntime().halt(0); // its data is of no use any more
    }
}
